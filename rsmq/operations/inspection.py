"""
Looking into queues of any length: peek and count, in steps that never block the server.
"""

from __future__ import annotations

from typing import get_args

from rsmq import protocol
from rsmq.codecs import Codec
from rsmq.errors import InvalidFormat, show
from rsmq.model import MessageCounts, QueueAttributes, State, StoredMessage
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, Steps
from rsmq.operations.queues import get_queue_attributes
from rsmq.operations.replies import stored_message_of
from rsmq.operations.walk import Place, next_place, step
from rsmq.protocol import Namespace, QueueKeys

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
            us = protocol.sent_us(protocol.decode_name(id), now)
            if us is not None and (oldest is None or us < oldest):
                oldest = us
        place = next_place(reply)
    return MessageCounts(visible, in_flight, delayed, None if oldest is None else oldest / 1000)


def peek_messages(
    namespace: Namespace, qname: str, start: int, count: int, *, state: State | None, codec: Codec
) -> Steps[list[StoredMessage]]:
    """Look up messages by their places in the queue, or among those of one state."""
    keys = namespace.queue(qname)
    first = protocol.whole("start", start, -_FURTHEST, _FURTHEST)
    wanted = protocol.whole("count", count, 1, protocol.MAX_BATCH)
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
        for at in range(0, len(told), 5):
            raw_id, raw, times, first, score = told[at : at + 5]
            reason = reasons[at // 5] if reasons else None
            id = protocol.decode_name(raw_id)
            stored = (raw, times or None, first or None, score, now, vt, reason)
            message = stored_message_of(keys.name, id, codec, stored)
            if message is not None:
                found.append(message)
        place = next_place(reply)
    return found


def _number(
    keys: QueueKeys, state: State | None, attributes: Operation[QueueAttributes]
) -> Steps[int]:
    """How many messages there are to count from the end."""
    if state is None or state == "visible":
        known = yield attributes
        return int(known.messages if state is None else known.visible_messages)
    counts = yield from _count(keys)
    return counts.in_flight if state == "in_flight" else counts.delayed
