"""
Operations on single messages: send, receive, pop, delete, change visibility, get.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, TypeVar

from rsmq.codecs import Codec, QueueCodec, bind_codec
from rsmq.errors import InvalidFormat, show
from rsmq.model import Message, StoredMessage
from rsmq.operations.arguments import digits, encode_body, encode_vt, resolve_message
from rsmq.operations.batches import release_messages
from rsmq.operations.confirmation import Confirm
from rsmq.operations.lost_replies import LostReplies
from rsmq.operations.operation import Operation, RetryClass, on_queue
from rsmq.operations.replies import (
    DONE,
    RECEIVED_SINCE,
    parse_message,
    parse_stored_message,
    shown_at,
)
from rsmq.operations.scripts import load
from rsmq.operations.send_options import SendOptions, check_send
from rsmq.operations.sending import send_with_options
from rsmq.operations.time_limit import TimeLimit
from rsmq.wire import limits
from rsmq.wire.ids import check_id, make_id_suffix
from rsmq.wire.keys import Namespace
from rsmq.wire.limits import Seconds, large_body_size, to_milliseconds
from rsmq.wire.names import decode_name, encode_name

T = TypeVar("T")

# Looking up a member of an Enum takes as long as checking a name.
_ALWAYS, _NEVER = RetryClass.ALWAYS, RetryClass.NEVER
#: The result of ``check_send`` for a send without options.
_NOT_DELAYED: tuple[bytes, SendOptions | None] = (b"", None)


def send_message(  # noqa: PLR0917 - as the next comment
    namespace: Namespace,
    qname: str,
    body: object,
    options: Mapping[str, Any],
    codec: Codec,
    realtime: bool = False,  # noqa: FBT001, FBT002 - by position: a name takes time in each call
    confirmation: Confirm | None = None,
    limit: TimeLimit | None = None,
) -> Operation[str]:
    """
    Add a message to a queue; the result is its id.

    Args:
        options: the arguments of ``send_message`` that are in ``SEND_OPTIONS``.

    Raises:
        The errors of ``check_send``, of the name and of the body.
    """
    keys = namespace.queue(qname)
    delay, checked = _NOT_DELAYED if not options else check_send(options)
    id_end = make_id_suffix()
    if isinstance(codec, QueueCodec):
        codec = codec.for_message(keys.zset, id_end)
    raw, size = encode_body(body, codec)
    channel = keys.channel if realtime else b""
    if checked is not None:
        return send_with_options(
            keys, (raw, digits(size)), delay, channel, checked, id_end=id_end,
            confirmation=confirmation, limit=limit,
        )  # fmt: skip
    operation = Operation(
        load("send_message"),
        (keys.hash, keys.zset),
        (raw, digits(size), delay, id_end, channel),
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
    bound = bind_codec(codec, keys.zset)

    def undo(message: Message | None) -> Operation[list[str]] | None:
        return release_messages(namespace, [message], None) if message else None

    operation: Operation[Message | None] = Operation(
        load("receive_message"),
        (keys.hash, keys.zset),
        (encoded_vt, keys.namespace),
        lambda reply: parse_message(keys.name, bound, reply),
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
    bound = bind_codec(codec, keys.zset)
    operation: Operation[Message | None] = Operation(
        load("pop_message"),
        (keys.hash, keys.zset),
        (keys.namespace,),
        lambda reply: parse_message(keys.name, bound, reply),
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
    return on_queue(
        keys,
        load("change_message_visibility"),
        (keys.hash, keys.zset),
        (raw_id, count, digits(to_milliseconds("vt", vt))),
        _is_done,
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
    bound = bind_codec(codec, keys.zset)

    def parse(reply: Any) -> tuple[StoredMessage, int] | None:
        if reply is None:
            return None
        *stored, shown, error, size = reply
        message = (*stored, shown_at(shown, 0), error)
        found = parse_stored_message(keys.name, id, bound, message)
        return None if found is None else (found, size)

    return on_queue(
        keys,
        load("get_message"),
        (keys.hash, keys.zset),
        (encode_name(check_id(id)), b"" if max_bytes is None else digits(max_bytes)),
        parse,
    )
