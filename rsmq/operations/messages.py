"""
Operations on single messages: send, receive, pop, delete, change visibility, get.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, TypeVar

from rsmq.codecs import Codec
from rsmq.errors import InvalidFormat, show
from rsmq.lua.load import load
from rsmq.model import Message, StoredMessage
from rsmq.operations.arguments import (
    digits,
    encode_body,
    encode_delay,
    encode_vt,
    resolve_message,
)
from rsmq.operations.batches import release_messages
from rsmq.operations.confirmation import Confirm
from rsmq.operations.lost_replies import LostReplies
from rsmq.operations.operation import Operation, RetryClass
from rsmq.operations.replies import DONE, RECEIVED_SINCE, parse_message, parse_stored_message
from rsmq.operations.send_options import check_options
from rsmq.operations.sending import send_with_options
from rsmq.operations.time_limit import TimeLimit
from rsmq.wire import limits
from rsmq.wire.ids import check_id, make_id_suffix
from rsmq.wire.keys import Namespace
from rsmq.wire.limits import (
    DEFAULT_DEDUP_WINDOW,
    Seconds,
    large_body_size,
    to_milliseconds,
)
from rsmq.wire.names import decode_name, encode_name

T = TypeVar("T")

# Looking up a member of an Enum takes as long as checking a name.
_ALWAYS, _NEVER = RetryClass.ALWAYS, RetryClass.NEVER


def send_message(
    namespace: Namespace,
    qname: str,
    body: object,
    *,
    delay: Seconds | None,
    codec: Codec,
    realtime: bool,
    deliver_at: datetime | None = None,
    front: bool = False,
    dedup_id: str | None = None,
    dedup_window: Seconds = DEFAULT_DEDUP_WINDOW,
    unique_key: str | None = None,
    replace: bool = False,
    max_wait: Seconds | None = None,
    expires: Seconds | None = None,
    max_retries: int | None = None,
    track: bool = False,
    group: str | None = None,
    limit_key: str | None = None,
    max_running: int | None = None,
    rate: str | None = None,
    confirmation: Confirm | None = None,
    limit: TimeLimit | None = None,
) -> Operation[str]:
    """Add a message to a queue; the result is its id. One without options takes longer here."""
    keys = namespace.queue(qname)
    encoded_delay = encode_delay(delay, deliver_at, front=front)
    options = check_options(
        1,
        dedup_ids=None if dedup_id is None else [dedup_id],
        dedup_window=dedup_window,
        unique_keys=None if unique_key is None else [unique_key],
        replace=replace,
        max_wait=max_wait,
        delay=delay,
        expires=expires,
        max_retries=max_retries,
        track=track,
        groups=None if group is None else [group],
        limit_keys=None if limit_key is None else [limit_key],
        max_running=max_running,
        rate=rate,
        front=front,
    )
    if options is None:
        return send_plain_message(
            namespace, qname, body, delay, deliver_at, front, codec, realtime, confirmation, limit
        )
    raw, size = encode_body(body, codec)
    return send_with_options(
        keys, (raw, digits(size)), encoded_delay, keys.channel if realtime else b"", options,
        confirmation=confirmation, limit=limit,
    )  # fmt: skip


def send_plain_message(  # noqa: PLR0917 - of each call: names would take as long again
    namespace: Namespace,
    qname: str,
    body: object,
    delay: Seconds | None,
    deliver_at: datetime | None,
    front: bool,  # noqa: FBT001
    codec: Codec,
    realtime: bool,  # noqa: FBT001
    confirmation: Confirm | None = None,
    limit: TimeLimit | None = None,
) -> Operation[str]:
    """Add a message without options to a queue; the result is its id."""
    keys = namespace.queue(qname)
    encoded_delay = encode_delay(delay, deliver_at, front=front)
    raw, size = encode_body(body, codec)
    operation = Operation(
        load("send_message"),
        (keys.hash, keys.zset),
        (raw, digits(size), encoded_delay, make_id_suffix(), keys.channel if realtime else b""),
        decode_name,
        _NEVER,
        (keys.name,),
    )
    # Not as arguments, each of which takes as long as all these lines.
    operation.confirmation = confirmation
    operation.limit = limit
    if len(raw) > limits.ACCEPTED_BODY_BYTES:
        operation.large_body = large_body_size(len(raw))
    return operation


def set_counted_size(operation: Operation[str], size: int) -> None:
    """Let a send without options have another size for maxsize; 0 disables the check."""
    operation.args = (operation.args[0], digits(size), *operation.args[2:])


def receive_message(
    namespace: Namespace, qname: str, *, vt: Seconds | None, codec: Codec, losses: LostReplies
) -> Operation[Message | None]:
    """Receive the message that has been visible the longest, and hide it."""
    build = losses.builders.get(_receive_message) or _cache(losses, _receive_message)
    try:
        return build(losses.generation, namespace, qname, vt, codec)
    except TypeError:  # an argument is not hashable
        return _receive_message(losses, losses.generation, namespace, qname, vt, codec)


def _cache(losses: LostReplies, build: Callable[..., Operation[Any]]) -> Callable[..., Any]:
    """Return a builder of a client that returns the same object for the same arguments."""
    cached = lru_cache(maxsize=256, typed=True)(partial(build, losses))
    losses.builders[build] = cached
    return cached


def _receive_message(
    losses: LostReplies,
    _generation: int,
    namespace: Namespace,
    qname: str,
    vt: Seconds | None,
    codec: Codec,
) -> Operation[Message | None]:
    keys = namespace.queue(qname)
    encoded_vt = encode_vt(vt)

    def undo(message: Message | None) -> Operation[list[str]] | None:
        return release_messages(namespace, [message], None) if message else None

    operation: Operation[Message | None] = Operation(
        load("receive_message"),
        (keys.hash, keys.zset),
        (encoded_vt, keys.namespace),
        lambda reply: parse_message(keys.name, codec, reply),
        RetryClass.ONCE,
        (keys.name,),
        undo=undo,
    )
    return losses.watch(
        operation,
        encoded_vt,
        1,
        nothing=lambda: None,
        repeat=lambda: receive_message(namespace, qname, vt=vt, codec=codec, losses=losses),
    )


def pop_message(
    namespace: Namespace, qname: str, *, codec: Codec, losses: LostReplies
) -> Operation[Message | None]:
    """Receive the message that has been visible the longest, and delete it."""
    build = losses.builders.get(_pop_message) or _cache(losses, _pop_message)
    try:
        return build(losses.generation, namespace, qname, codec)
    except TypeError:  # an argument is not hashable
        return _pop_message(losses, losses.generation, namespace, qname, codec)


def _pop_message(
    losses: LostReplies,
    _generation: int,
    namespace: Namespace,
    qname: str,
    codec: Codec,
) -> Operation[Message | None]:
    keys = namespace.queue(qname)
    operation: Operation[Message | None] = Operation(
        load("pop_message"),
        (keys.hash, keys.zset),
        (keys.namespace,),
        lambda reply: parse_message(keys.name, codec, reply),
        _NEVER,
        (keys.name,),
    )
    return losses.watch(
        operation,
        b"0",
        1,
        nothing=lambda: None,
        repeat=lambda: pop_message(namespace, qname, codec=codec, losses=losses),
    )


def delete_message(namespace: Namespace, message: Message | str, id: str | None) -> Operation[bool]:
    """Delete a message by its receipt or a bare id; the result is whether it was deleted."""
    keys, raw_id, count = resolve_message(namespace, message, id)
    return Operation(
        load("delete_message"),
        (keys.hash, keys.zset),
        (raw_id, count),
        _is_done,
        _ALWAYS,
        (keys.name,),
        # If it is gone, the attempt whose reply was lost removed it, or another client did.
        _is_not_received_since,
    )


def delete_processed(namespace: Namespace, message: Message) -> Operation[bool]:
    """Delete a processed message; the result is False if it was received again since."""
    if not isinstance(message, Message | StoredMessage | None):
        raise InvalidFormat(
            "message", value=show(message), hint="Pass the Message that a receive returned."
        )
    operation = delete_message(namespace, message, None)
    operation.parse = _is_not_received_since
    return operation


def _is_done(reply: int) -> bool:
    return reply == DONE


def _is_not_received_since(reply: int) -> bool:
    return reply != RECEIVED_SINCE


def change_message_visibility(
    namespace: Namespace, message: Message | str, id: Any, vt: Seconds | None
) -> Operation[bool]:
    """Hide a message for vt seconds from now; the result is whether it was changed."""
    if vt is None and (isinstance(message, Message) or not isinstance(id, str)):
        id, vt = None, id  # the argument after a message, or after an id without its queue, is vt
    keys, raw_id, count = resolve_message(namespace, message, id)
    return Operation(
        load("change_message_visibility"),
        (keys.hash, keys.zset),
        (raw_id, count, digits(to_milliseconds("vt", vt))),
        _is_done,
        _ALWAYS,
        (keys.name,),
    )


def get_message(
    namespace: Namespace, qname: str, id: str, *, codec: Codec
) -> Operation[StoredMessage | None]:
    """Return a message without receiving it."""
    operation: Operation[Any] = get_part(namespace, qname, id, codec=codec, max_bytes=None)
    parse = operation.parse
    operation.parse = lambda reply: reply and parse(reply)[0]
    return operation


def get_part(
    namespace: Namespace, qname: str, id: str, *, codec: Codec, max_bytes: int | None
) -> Operation[tuple[StoredMessage, int] | None]:
    """Return a message with at most so many bytes of its body, and the bytes of the whole body."""
    keys = namespace.queue(qname)

    def parse(reply: Any) -> tuple[StoredMessage, int] | None:
        found = reply and parse_stored_message(keys.name, id, codec, reply[:-1])
        return None if found is None else (found, reply[-1])

    return Operation(
        load("get_message"),
        (keys.hash, keys.zset),
        (encode_name(check_id(id)), b"" if max_bytes is None else digits(max_bytes)),
        parse,
        _ALWAYS,
        (keys.name,),
    )
