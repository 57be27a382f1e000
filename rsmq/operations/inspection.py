"""
Peek and count, in steps that never block the server for long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from rsmq.codecs import Codec, bind_codec
from rsmq.errors import InvalidFormat
from rsmq.model import MessageCounts, QueueAttributes, State, StoredMessage
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, Steps
from rsmq.operations.queues import get_queue_attributes
from rsmq.operations.replies import parse_stored_message, shown_at
from rsmq.operations.walk import Position, parse_next_position, walk_step
from rsmq.wire.ids import parse_sent_us
from rsmq.wire.keys import Namespace, QueueKeys
from rsmq.wire.limits import MAX_BATCH, check_whole_number
from rsmq.wire.names import decode_name

_STATES = get_args(State)
_MAX_POSITION = 10**9
_MAX_STEP_BYTES = digits(1024 * 1024)
_VALUES_PER_MESSAGE = 5  # in the replies of peek_messages.lua and new_messages.lua


def count_messages(namespace: Namespace, qname: str) -> Steps[MessageCounts]:
    """Count the messages of a queue by state, and find the oldest."""
    return _count(namespace.queue(qname))


def _count(keys: QueueKeys) -> Steps[MessageCounts]:
    visible = in_flight = delayed = retrying = held_back = 0
    oldest: float | None = None
    due_since: bytes | None = None
    position: Position | None = (b"-inf", b"0")
    while position:
        reply = yield walk_step("count_messages", keys, position)
        now = int(reply[2])
        visible, in_flight, delayed = visible + reply[3], in_flight + reply[4], delayed + reply[5]
        retrying += reply[8]
        held_back += reply[9]
        for id in reply[6]:
            us = parse_sent_us(decode_name(id), now)
            if us is not None and (oldest is None or us < oldest):
                oldest = us
        due_since = due_since or reply[7]
        position = parse_next_position(reply)
    return MessageCounts(
        visible,
        in_flight,
        delayed,
        None if oldest is None else oldest / 1000,
        None if due_since is None else float(due_since),
        retrying,
        held_back,
    )


def peek_messages(
    namespace: Namespace, qname: str, start: int, count: int, *, state: State | None, codec: Codec
) -> Steps[list[StoredMessage]]:
    """Return messages by their position in the queue, or among the messages of one state."""
    keys = namespace.queue(qname)
    checked_start = check_whole_number("start", start, -_MAX_POSITION, _MAX_POSITION)
    checked_count = check_whole_number("count", count, 1, MAX_BATCH)
    if state is not None and state not in _STATES:
        raise InvalidFormat(
            "state",
            value=state,
            hint=f"It is one of {', '.join(map(repr, _STATES))}.",
        )
    return _peek(
        keys, (checked_start, checked_count), state, codec, get_queue_attributes(namespace, qname)
    )


def _peek(
    keys: QueueKeys,
    start_and_count: tuple[int, int],
    state: State | None,
    codec: Codec,
    attributes: Operation[QueueAttributes],
) -> Steps[list[StoredMessage]]:
    start, count = start_and_count
    if start < 0:
        start = max(0, start + (yield from _count_in_state(keys, state, attributes)))
    found: list[StoredMessage] = []
    position: Position | None = (b"", b"0")
    skip = start
    while position and len(found) < count:
        reply = yield walk_step(
            "peek_messages",
            keys,
            position,
            (state or "").encode(),
            digits(skip),
            digits(count - len(found)),
            _MAX_STEP_BYTES,
        )
        _, _, skip, now, vt, *values = reply
        found += _parse_stored(keys, codec, (*values, now, vt))
        position = parse_next_position(reply)
    return found


def _parse_stored(keys: QueueKeys, codec: Codec, reply: tuple[Any, ...]) -> list[StoredMessage]:
    """Return the messages in the reply of a step, without ids that have no body."""
    values, shown, errors, now, vt = reply
    found = []
    bound = bind_codec(codec, keys.zset)
    for at in range(0, len(values), _VALUES_PER_MESSAGE):
        raw_id, raw, count, first, score = values[at : at + _VALUES_PER_MESSAGE]
        id = decode_name(raw_id)
        index = at // _VALUES_PER_MESSAGE
        of_message = shown_at(shown, index), errors[index]
        stored = (raw, count or None, first or None, score, now, vt, *of_message)
        message = parse_stored_message(keys.name, id, bound, stored)
        if message is not None:
            found.append(message)
    return found


@dataclass(frozen=True, slots=True)
class NewMessages:
    """
    The new messages that one step of a walk finds.

    Attributes:
        messages: the messages as they are stored.
        now_ms: the server's time.
        position: where the next step begins; None at the end.
    """

    messages: list[StoredMessage]
    now_ms: int
    position: Position | None


def new_messages(
    keys: QueueKeys, position: Position, since_ms: int, *, front: bool, codec: Codec
) -> Operation[NewMessages]:
    """
    Return a step of a walk through the messages that are new since a time.

    Args:
        position: ``start_position`` for the first step, otherwise the position in the result of
            the step before.
        since_ms: Unix ms of the server.
        front: if True, the walk goes through messages that were sent to the front, else through the
            rest.
    """
    max_score = b"(%d" % since_ms if front else b"+inf"
    operation: Operation[Any] = walk_step(
        "new_messages", keys, position, max_score, digits(since_ms), _MAX_STEP_BYTES
    )
    operation.parse = lambda reply: NewMessages(
        _parse_stored(keys, codec, (*reply[4:], reply[2], reply[3])),
        int(reply[2]),
        parse_next_position(reply),
    )
    return operation


def start_position(since_ms: int, *, front: bool) -> Position:
    """Return where a walk through new messages begins."""
    return (b"-inf" if front else digits(since_ms), b"0")


def _count_in_state(
    keys: QueueKeys, state: State | None, attributes: Operation[QueueAttributes]
) -> Steps[int]:
    """Return the number of messages that positions from the end refer to."""
    if state is None or state == "visible":
        counts = yield attributes
        return int(counts.messages if state is None else counts.visible_messages)
    by_state = yield from _count(keys)
    return getattr(by_state, state)  # type: ignore[no-any-return]
