"""
Parsers of the replies of scripts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from rsmq.codecs import Codec, bind_codec
from rsmq.model import (
    DeadLetterReason,
    Message,
    QueueAttributes,
    State,
    StoredMessage,
    make_received_message,
)
from rsmq.vocabulary.queues import ATTRIBUTE_FIELDS, read_attributes
from rsmq.vocabulary.stored import SHOWN_RECORDS
from rsmq.wire.ids import parse_sent_us
from rsmq.wire.keys import QueueKeys
from rsmq.wire.names import decode_names
from rsmq.wire.stored import parse_integer, parse_seconds
from rsmq.wire.throttle import NO_LIMITS, Limit, parse_limit

# The replies of delete_message.lua and change_message_visibility.lua; 0 means not in the queue.
DONE = 1
RECEIVED_SINCE = 2


def _sent_ms(id: str, seen_ms: int | None) -> float | None:
    us = parse_sent_us(id, seen_ms)
    return None if us is None else us / 1000


class LimitReached:
    """
    The result of a receive of one message from a queue whose limits allow none now. It is false.

    Attributes:
        limits: as for ``ReceivedMessages``.
    """

    __slots__ = ("limits",)

    def __init__(self, limit: Limit) -> None:
        self.limits: Mapping[int, Limit] = {0: limit}

    def __bool__(self) -> bool:
        return False


class ReceivedMessages(list[Message]):
    """
    The messages of a receive or a pop of many.

    Attributes:
        has_more: whether one of the queues still had a visible message that may be received now.
        limits: if only limits prevent that, by the place of a queue its limit that is reached.
    """

    def __init__(
        self,
        messages: Iterable[Message],
        *,
        has_more: bool,
        limits: Mapping[int, Limit] = NO_LIMITS,
    ) -> None:
        super().__init__(messages)
        self.has_more = has_more
        self.limits = limits


def parse_messages(queues: Iterable[QueueKeys], codec: Codec, reply: Any) -> ReceivedMessages:
    """Return the messages in the reply of a pop of many, queue by queue."""
    values = iter(reply)
    now, more = int(next(values)), next(values)
    messages: list[Message] = []
    for keys, bodies, repeated in zip(queues, values, values, strict=True):
        qname, bound = keys.name, bind_codec(codec, keys.zset)
        ids = decode_names(bodies[::2])
        of_queue = [
            make_received_message(qname, id, raw, 1, now, bound)
            for id, raw in zip(ids, bodies[1::2], strict=True)
        ]
        for position, count, first in zip(
            repeated[::3], repeated[1::3], repeated[2::3], strict=True
        ):
            message = of_queue[position - 1]
            of_queue[position - 1] = make_received_message(
                qname, ids[position - 1], message.raw, count, parse_integer(first), bound
            )
        messages += of_queue
    if isinstance(more, list):
        limits = {at - 1: parse_limit(ms) for at, ms in zip(more[::2], more[1::2], strict=True)}
        return ReceivedMessages(messages, has_more=False, limits=limits)
    return ReceivedMessages(messages, has_more=bool(more))


def parse_received(queues: Iterable[QueueKeys], codec: Codec, reply: Any) -> ReceivedMessages:
    """Return the messages in the reply of a receive of many, queue by queue."""
    now, has_more, _, *messages = reply
    return parse_messages(queues, codec, (now, has_more, *messages))


def parse_leases(queues: Iterable[str], reply: Any) -> dict[str, float]:
    """Return the seconds for which a receive of many hid the messages of each queue."""
    return {queue: ms / 1000 for queue, ms in zip(queues, reply[2], strict=True)}


def parse_message(qname: str, codec: Codec, reply: Any) -> Message | None:
    """
    Return the message in the reply of a receive; None if there is none.

    It is a ``LimitReached`` if a limit prevents the receive, for waiting receives; callers return
    None instead.
    """
    if reply is None:
        return None
    if isinstance(reply, int):
        return cast("None", LimitReached(parse_limit(reply)))
    id, raw, count, first = reply
    return make_received_message(
        qname, id.decode("utf-8", "surrogateescape"), raw, count, parse_integer(first), codec
    )


def parse_stored_message(qname: str, id: str, codec: Codec, reply: Any) -> StoredMessage | None:
    """Return the message in the reply of a read; None if there is none."""
    if reply is None:
        return None
    raw, raw_count, raw_first, raw_score, raw_now, raw_vt, (raw_reason, *records), raw_error = reply
    count = parse_integer(raw_count) or 0
    score, now = float(raw_score), int(raw_now)
    state: State = "visible" if score <= now else "in_flight" if count else "delayed"
    raw_group = None
    if isinstance(raw_error, list):  # of a message with a group
        raw_error, raw_group, is_held_back = raw_error
        if is_held_back and state in {"delayed", "in_flight"}:
            state = "held_back"
    if raw_error is not None:
        state = "retrying"
    vt_ms = parse_seconds(raw_vt) * 1000
    reason = parse_reason(raw_reason)
    return StoredMessage(
        qname,
        id,
        raw,
        count,
        parse_integer(raw_first),
        codec,
        sent_ms=_sent_ms(id, now),
        state=state,
        visible_at_ms=_without_zero_fraction(score),
        # The score of a dead letter is the time at which it was moved.
        last_received_ms=_without_zero_fraction(score - vt_ms)
        if count and reason is None and raw_error is None
        else None,
        reason=reason,
        last_error=None if raw_error is None else raw_error.decode(errors="replace"),
        **_read_shown([raw_group, *records]),
    )


def _read_shown(records: Iterable[bytes | None]) -> dict[str, Any]:
    """Return the values of ``SHOWN_FACTS`` in the records of a message, which are in order."""
    values: dict[str, Any] = {}
    for record, text in zip(SHOWN_RECORDS, records, strict=True):
        if text:
            values |= record.read(text)
    return values


def shown_at(shown: Sequence[Sequence[bytes | None]], index: int) -> list[bytes | None]:
    """
    Return the records of a message in the lists of ``shown_of``, as ``parse_stored_message`` reads
    them.

    Args:
        shown: the lists; one is empty if the user lacks the right to its key.
        index: the place of the message.
    """
    return [each[index] if each else None for each in shown]


def _without_zero_fraction(number: float) -> float:
    return int(number) if number.is_integer() else number


def parse_reason(stored: bytes | None) -> DeadLetterReason | None:
    """
    Return the reason of a dead letter, as ``reasons.lua`` stores it; None if it is missing or
    invalid.
    """
    if stored is None:
        return None
    ms, _, fields = stored.partition(b":")
    try:
        return DeadLetterReason(**json.loads(fields), died_ms=int(ms))
    except (TypeError, ValueError, RecursionError):  # written by another program
        return None


def parse_attributes(reply: Any) -> QueueAttributes:
    """Return a queue's attributes and counts from the reply of ``describe.lua``."""
    fields, messages, hidden, next_due = reply
    return QueueAttributes(
        **read_attributes(dict(zip(ATTRIBUTE_FIELDS, fields, strict=True))),
        messages=messages,
        hidden_messages=hidden,
        visible_messages=messages - hidden,
        next_due_ms=None if next_due is None else _without_zero_fraction(float(next_due)),
    )
