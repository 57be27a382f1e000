"""
One builder an operation: what is sent for a call, and what its reply means.

Builders check their arguments in Node's order, and raise before anything is sent. They do no
I/O and read no clock; ``connection.py`` runs what they return.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from rsmq import protocol
from rsmq.codecs import Codec
from rsmq.errors import (
    InvalidFormat,
    MessageNotString,
    MissingParameter,
    NoAttributeSupplied,
    QueueExists,
    QueueNotFound,
    show,
)
from rsmq.lua import Script, load
from rsmq.model import Message, QueueAttributes, State, StoredMessage
from rsmq.protocol import Namespace, QueueKeys

T = TypeVar("T")


class Retry(Enum):
    """
    How often an operation may be sent again after an ambiguous failure.

    Ambiguous: the connection broke after the command was on its way, so that nobody knows
    whether it ran.
    """

    ALWAYS = "always"  # a second run changes nothing more
    ONCE = "once"  # a second run costs something, but loses nothing
    NEVER = "never"  # a second run would store twice or lose


@dataclass(frozen=True, slots=True)
class Operation(Generic[T]):
    """
    One call, ready to be sent.

    Attributes:
        script: the atomic step.
        keys: its Redis keys.
        args: its arguments, bytes.
        parse: turns the reply, bytes and integers, into the result.
        retry: how often it may be sent again after an ambiguous failure.
        queue: the queue's name, for errors; empty where the call is about none.
        settle: takes the place of ``parse`` once an earlier attempt may have run already.
        give_back: for a result that nobody will take, the operation that undoes it.
    """

    script: Script
    keys: tuple[bytes, ...]
    args: tuple[bytes, ...]
    parse: Callable[[Any], T]
    retry: Retry
    queue: str = ""
    settle: Callable[[Any], T] | None = None
    give_back: Callable[[T], Operation[bool] | None] | None = None


def create_queue(
    namespace: Namespace, qname: str, *, vt: float, delay: float, maxsize: int, exist_ok: bool
) -> Operation[bool]:
    """Create a queue, or complete a half-made one; True if it did."""
    keys = namespace.queue(qname)
    wanted = (
        _digits(protocol.seconds("vt", vt)),
        _digits(protocol.seconds("delay", delay)),
        _digits(protocol.maxsize(maxsize)),
    )

    def parse(reply: Any) -> bool:
        if not reply[0] and not exist_ok:
            raise QueueExists(keys.name)
        return bool(reply[0])

    def settle(reply: Any) -> bool:
        # The attempt whose reply was lost may have created just this queue.
        return tuple(reply[1:]) == wanted or parse(reply)

    return Operation(
        load("create_queue"),
        (keys.hash, keys.zset, namespace.queues),
        (protocol.encode_name(keys.name), *wanted),
        parse,
        Retry.ALWAYS,
        keys.name,
        settle,
    )


def delete_queue(namespace: Namespace, qname: str) -> Operation[None]:
    """Delete a queue and all its messages."""
    keys = namespace.queue(qname)

    def parse(reply: Any) -> None:
        if not reply:
            raise QueueNotFound(keys.name)

    return Operation(
        load("delete_queue"),
        (keys.hash, keys.zset, namespace.queues),
        (protocol.encode_name(keys.name),),
        parse,
        # A second run could take a queue that someone has made anew, with its messages.
        Retry.NEVER,
        keys.name,
    )


def list_queues(namespace: Namespace) -> Operation[list[str]]:
    """List the names of all listed queues, sorted."""
    return Operation(
        load("list_queues"),
        (namespace.queues,),
        (),
        lambda reply: sorted(map(protocol.decode_name, reply)),
        Retry.ALWAYS,
    )


def get_queue_attributes(namespace: Namespace, qname: str) -> Operation[QueueAttributes]:
    """Read a queue's attributes and counts."""
    keys = namespace.queue(qname)
    return Operation(
        load("get_queue_attributes"),
        (keys.hash, keys.zset),
        (),
        _attributes,
        Retry.ALWAYS,
        keys.name,
    )


def set_queue_attributes(
    namespace: Namespace,
    qname: str,
    *,
    vt: float | None,
    delay: float | None,
    maxsize: int | None,
) -> Operation[QueueAttributes]:
    """Set attributes of a queue; None leaves one as it is."""
    if vt is None and delay is None and maxsize is None:
        raise NoAttributeSupplied
    keys = namespace.queue(qname)
    # Node checks them in this order.
    new_vt = b"" if vt is None else _digits(protocol.seconds("vt", vt))
    new_maxsize = b"" if maxsize is None else _digits(protocol.maxsize(maxsize))
    new_delay = b"" if delay is None else _digits(protocol.seconds("delay", delay))
    return Operation(
        load("set_queue_attributes"),
        (keys.hash, keys.zset),
        (new_vt, new_delay, new_maxsize),
        _attributes,
        Retry.ALWAYS,
        keys.name,
    )


def purge_queue(namespace: Namespace, qname: str) -> Operation[int]:
    """Remove all messages of a queue; the number of ids removed."""
    keys = namespace.queue(qname)
    return Operation(load("purge_queue"), (keys.hash, keys.zset), (), int, Retry.NEVER, keys.name)


def send_message(
    namespace: Namespace,
    qname: str,
    body: object,
    *,
    delay: float | None,
    codec: Codec,
    realtime: bool,
    enforce_maxsize: bool = True,
) -> Operation[str]:
    """Add a message to a queue; its id."""
    keys = namespace.queue(qname)
    wait = b"" if delay is None else _digits(protocol.milliseconds("delay", delay))
    raw, size = _encode_body(body, codec)
    return Operation(
        load("send_message"),
        (keys.hash, keys.zset),
        (
            raw,
            _digits(size if enforce_maxsize else 0),
            wait,
            protocol.random_suffix(),
            keys.channel if realtime else b"",
        ),
        protocol.decode_name,
        Retry.NEVER,
        keys.name,
    )


def receive_message(
    namespace: Namespace, qname: str, *, vt: float | None, codec: Codec
) -> Operation[Message | None]:
    """Receive the message that is due first, and hide it."""
    keys = namespace.queue(qname)
    hidden = b"" if vt is None else _digits(protocol.milliseconds("vt", vt))

    def give_back(message: Message | None) -> Operation[bool] | None:
        return change_message_visibility(namespace, message, None, 0) if message else None

    return Operation(
        load("receive_message"),
        (keys.hash, keys.zset),
        (hidden,),
        lambda reply: _message(keys.name, codec, reply),
        Retry.ONCE,
        keys.name,
        give_back=give_back,
    )


def pop_message(namespace: Namespace, qname: str, *, codec: Codec) -> Operation[Message | None]:
    """Receive the message that is due first, and remove it."""
    keys = namespace.queue(qname)
    return Operation(
        load("pop_message"),
        (keys.hash, keys.zset),
        (),
        lambda reply: _message(keys.name, codec, reply),
        Retry.NEVER,
        keys.name,
    )


def delete_message(namespace: Namespace, message: Message | str, id: str | None) -> Operation[bool]:
    """Remove a message, by its receipt or by a bare id; True if it was there."""
    keys, raw_id, count = _target(namespace, message, id)
    return Operation(
        load("delete_message"),
        (keys.hash, keys.zset),
        (raw_id, count),
        lambda reply: reply == _DONE,
        Retry.ALWAYS,
        keys.name,
        # The attempt whose reply was lost has removed it, or another has: it is gone.
        settle=lambda reply: reply != _RECEIVED_SINCE,
    )


def change_message_visibility(
    namespace: Namespace, message: Message | str, id: Any, vt: float | None
) -> Operation[bool]:
    """Hide a message for vt seconds from now; True if it was there."""
    if isinstance(message, Message) and vt is None:
        id, vt = None, id  # what follows a message is vt
    keys, raw_id, count = _target(namespace, message, id)
    return Operation(
        load("change_message_visibility"),
        (keys.hash, keys.zset),
        (raw_id, count, _digits(protocol.milliseconds("vt", vt))),
        lambda reply: reply == _DONE,
        Retry.ALWAYS,
        keys.name,
    )


def get_message(
    namespace: Namespace, qname: str, id: str, *, codec: Codec
) -> Operation[StoredMessage | None]:
    """Look up a message without receiving it."""
    keys = namespace.queue(qname)
    raw_id = protocol.encode_name(protocol.check_id(id))
    return Operation(
        load("get_message"),
        (keys.hash, keys.zset),
        (raw_id,),
        lambda reply: _stored_message(keys.name, id, codec, reply),
        Retry.ALWAYS,
        keys.name,
    )


# What delete_message.lua and change_message_visibility.lua answer; 0 is: not in the queue.
_DONE = 1
_RECEIVED_SINCE = 2


def _digits(number: int) -> bytes:
    return b"%d" % number


def _encode_body(body: object, codec: Codec) -> tuple[bytes, int]:
    """The body's bytes, and its size as maxsize counts it."""
    try:
        encoded = codec.encode(body)
        if isinstance(encoded, str):
            return encoded.encode("utf-8"), protocol.utf16_length(encoded)
        if isinstance(encoded, bytes):
            return encoded, len(encoded)
    except Exception as error:
        raise MessageNotString(
            value=show(body), hint=f"{show(codec)} can't encode {type(body).__name__}: {error}."
        ) from error
    raise MessageNotString(
        value=show(body),
        hint=f"{show(codec)} must encode to str or bytes, not {type(encoded).__name__}.",
    )


def _target(
    namespace: Namespace, message: Message | str, id: str | None
) -> tuple[QueueKeys, bytes, bytes]:
    """
    Queue, id and receive count of what is to be changed.

    A bare id has no count: it acts whoever holds the message, as Node does.
    """
    if isinstance(message, Message):
        if id is not None:
            raise InvalidFormat(
                "id", value=id, hint="Give a Message, or a queue's name and an id, not both."
            )
        keys = namespace.queue(message.queue)
        return keys, protocol.encode_name(message.id), _digits(message.receive_count)
    if isinstance(message, StoredMessage):
        raise InvalidFormat(
            "id",
            value=message,
            hint="A StoredMessage was looked up, not received, and is no receipt. "
            "Give its queue and id to act whoever holds it.",
        )
    if message is None:
        raise MissingParameter(
            "qname",
            hint="Got None, which a receive returns when no message is due: test it before.",
        )
    if isinstance(id, Message):
        raise InvalidFormat("id", value=id, hint="Give the Message alone; it knows its queue.")
    keys = namespace.queue(message)
    return keys, protocol.encode_name(protocol.check_id(id)), b""


def _integer(raw: bytes | None) -> int | None:
    number = protocol.stored_number(raw)
    return None if number is None else int(number)


def _sent_ms(id: str, seen_ms: int | None) -> float | None:
    us = protocol.sent_us(id, seen_ms)
    return None if us is None else us / 1000


def _message(qname: str, codec: Codec, reply: Any) -> Message | None:
    if reply is None:
        return None
    raw_id, raw, count, first = reply
    id = protocol.decode_name(raw_id)
    first_ms = _integer(first)
    return Message(qname, id, raw, count, first_ms, _sent_ms(id, first_ms), codec)


def _stored_message(qname: str, id: str, codec: Codec, reply: Any) -> StoredMessage | None:
    if reply is None:
        return None
    raw, raw_count, raw_first, raw_score, raw_now, raw_vt = reply
    count = _integer(raw_count) or 0
    score, now = float(raw_score), int(raw_now)
    state: State = "visible" if score <= now else "in_flight" if count else "delayed"
    vt_ms = protocol.stored_seconds(raw_vt) * 1000
    return StoredMessage(
        qname,
        id,
        raw,
        count,
        _integer(raw_first),
        _sent_ms(id, now),
        codec,
        state=state,
        visible_at_ms=_whole(score),
        last_received_ms=_whole(score - vt_ms) if count else None,
    )


def _whole(number: float) -> float:
    return int(number) if number.is_integer() else number


def _attributes(reply: Any) -> QueueAttributes:
    fields, messages, hidden, next_due = reply
    vt, delay, maxsize, received, sent, created, modified, target, limit = fields
    return QueueAttributes(
        vt=protocol.stored_seconds(vt),
        delay=protocol.stored_seconds(delay),
        maxsize=protocol.stored_maxsize(maxsize),
        total_received=_integer(received) or 0,
        total_sent=_integer(sent) or 0,
        created=protocol.stored_time(created),
        modified=protocol.stored_time(modified),
        messages=messages,
        hidden_messages=hidden,
        visible_messages=messages - hidden,
        next_due_ms=None if next_due is None else _whole(float(next_due)),
        dead_letter_queue=None if target is None else protocol.decode_name(target),
        max_receives=_integer(limit),
    )
