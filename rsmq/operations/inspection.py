"""
Peek and count, in steps that never block the server for long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from rsmq.codecs import Codec
from rsmq.errors import InvalidFormat, show
from rsmq.model import MessageCounts, QueueAttributes, State, StoredMessage
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, Steps
from rsmq.operations.queues import get_queue_attributes
from rsmq.operations.replies import stored_message_of
from rsmq.operations.walk import Place, next_place, step
from rsmq.wire.ids import parse_sent_us
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.limits import MAX_BATCH, check_whole_number
from rsmq.wire.names import decode_name

_STATES = get_args(State)
_FURTHEST = 10**9
_ROOM = digits(1024 * 1024)


def count_messages(namespace: Namespace, qname: str) -> Steps[MessageCounts]:
    """Count the messages of a queue by state, and find the oldest."""
    return _count(namespace.queue(qname))


def _count(keys: QueueKeys) -> Steps[MessageCounts]:
    visible = in_flight = delayed = 0
    oldest: float | None = None
    place: Place | None = (b"-inf", b"0")
    while place:
        reply = yield step("count_messages", keys, place)
        now = int(reply[2])
        visible, in_flight, delayed = visible + reply[3], in_flight + reply[4], delayed + reply[5]
        for id in reply[6]:
            us = parse_sent_us(decode_name(id), now)
            if us is not None and (oldest is None or us < oldest):
                oldest = us
        place = next_place(reply)
    return MessageCounts(visible, in_flight, delayed, None if oldest is None else oldest / 1000)


def peek_messages(
    namespace: Namespace, qname: str, start: int, count: int, *, state: State | None, codec: Codec
) -> Steps[list[StoredMessage]]:
    """Look up messages by their places in the queue, or among those of one state."""
    keys = namespace.queue(qname)
    first = check_whole_number("start", start, -_FURTHEST, _FURTHEST)
    wanted = check_whole_number("count", count, 1, MAX_BATCH)
    if state is not None and state not in _STATES:
        raise InvalidFormat(
            "state",
            value=state,
            hint=f"state is None or one of {', '.join(map(repr, _STATES))}; got {show(state)}.",
        )
    return _peek(keys, (first, wanted), state, codec, get_queue_attributes(namespace, qname))


def _peek(
    keys: QueueKeys,
    wanted: tuple[int, int],
    state: State | None,
    codec: Codec,
    attributes: Operation[QueueAttributes],
) -> Steps[list[StoredMessage]]:
    start, count = wanted
    if start < 0:
        start = max(0, start + (yield from _number(keys, state, attributes)))
    found: list[StoredMessage] = []
    place: Place | None = (b"", b"0")
    skip = start
    while place and len(found) < count:
        reply = yield step(
            "peek_messages",
            keys,
            place,
            (state or "").encode(),
            digits(skip),
            digits(count - len(found)),
            _ROOM,
        )
        _, _, skip, now, vt, told, reasons = reply
        found += _stored(keys, codec, (told, reasons, now, vt))
        place = next_place(reply)
    return found


def _stored(
    keys: QueueKeys, codec: Codec, reply: tuple[Any, Any, bytes, bytes]
) -> list[StoredMessage]:
    """The messages that a step of a walk answers, those without a body left out."""
    told, reasons, now, vt = reply
    found = []
    for at in range(0, len(told), 5):
        raw_id, raw, times, first, score = told[at : at + 5]
        reason = reasons[at // 5] if reasons else None
        id = decode_name(raw_id)
        stored = (raw, times or None, first or None, score, now, vt, reason)
        message = stored_message_of(keys.name, id, codec, stored)
        if message is not None:
            found.append(message)
    return found


@dataclass(frozen=True, slots=True)
class Arrivals:
    """
    What a step of a walk finds that came to a queue.

    Attributes:
        messages: as they stand.
        now_ms: the server's time.
        place: where the next step begins; None at the end.
    """

    messages: list[StoredMessage]
    now_ms: int
    place: Place | None


def new_messages(
    keys: QueueKeys, place: Place, since_ms: int, *, front: bool, codec: Codec
) -> Operation[Arrivals]:
    """
    A step of a walk through what came to a queue since a time.

    Args:
        keys: the queue's.
        place: where to begin: ``first_place`` of a walk, else that of the step before.
        since_ms: Unix ms of the server.
        front: whether this walks through what was sent to the front, else through the rest.
        codec: for these messages.
    """
    to = b"(%d" % since_ms if front else b"+inf"
    operation: Operation[Any] = step("new_messages", keys, place, to, digits(since_ms), _ROOM)
    operation.parse = lambda reply: Arrivals(
        _stored(keys, codec, (reply[4], reply[5], reply[2], reply[3])),
        int(reply[2]),
        next_place(reply),
    )
    return operation


def first_place(since_ms: int, *, front: bool) -> Place:
    """Where a walk through new messages begins."""
    return (b"-inf" if front else digits(since_ms), b"0")


def _number(
    keys: QueueKeys, state: State | None, attributes: Operation[QueueAttributes]
) -> Steps[int]:
    """How many messages there are to count from the end."""
    if state is None or state == "visible":
        known = yield attributes
        return int(known.messages if state is None else known.visible_messages)
    counts = yield from _count(keys)
    return counts.in_flight if state == "in_flight" else counts.delayed
