"""
Parsers of the replies of scripts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from rsmq.codecs import Codec
from rsmq.model import (
    DeadLetterReason,
    Message,
    QueueAttributes,
    State,
    StoredMessage,
    received_message,
)
from rsmq.wire.ids import parse_sent_us
from rsmq.wire.names import decode_name, decode_names
from rsmq.wire.stored import parse_integer, parse_maxsize, parse_seconds, parse_time

# What delete_message.lua and change_message_visibility.lua answer; 0 is: not in the queue.
DONE = 1
RECEIVED_SINCE = 2


def _sent_ms(id: str, seen_ms: int | None) -> float | None:
    us = parse_sent_us(id, seen_ms)
    return None if us is None else us / 1000


def messages_of(queues: Iterable[str], codec: Codec, reply: Any) -> list[Message]:
    """The messages that a receive of many answers, queue by queue."""
    told = iter(reply)
    now = int(next(told))
    messages: list[Message] = []
    for qname, bodies, again in zip(queues, told, told, strict=True):
        ids = decode_names(bodies[::2])
        of_queue = [
            received_message(qname, id, raw, 1, now, codec)
            for id, raw in zip(ids, bodies[1::2], strict=True)
        ]
        for place, count, first in zip(again[::3], again[1::3], again[2::3], strict=True):
            one = of_queue[place - 1]
            of_queue[place - 1] = received_message(
                qname, one.id, one.raw, count, parse_integer(first), codec
            )
        messages += of_queue
    return messages


def message_of(qname: str, codec: Codec, reply: Any) -> Message | None:
    """The message that a receive answers, or none."""
    if reply is None:
        return None
    id, raw, count, first = reply
    return received_message(
        qname, id.decode("utf-8", "surrogateescape"), raw, count, parse_integer(first), codec
    )


def stored_message_of(qname: str, id: str, codec: Codec, reply: Any) -> StoredMessage | None:
    """The message that a look into a queue answers, or none."""
    if reply is None:
        return None
    raw, raw_count, raw_first, raw_score, raw_now, raw_vt, raw_reason = reply
    count = parse_integer(raw_count) or 0
    score, now = float(raw_score), int(raw_now)
    state: State = "visible" if score <= now else "in_flight" if count else "delayed"
    vt_ms = parse_seconds(raw_vt) * 1000
    reason = reason_of(raw_reason)
    return StoredMessage(
        qname,
        id,
        raw,
        count,
        parse_integer(raw_first),
        codec,
        sent_ms=_sent_ms(id, now),
        state=state,
        visible_at_ms=_whole(score),
        # The score of a dead letter is when it was moved.
        last_received_ms=_whole(score - vt_ms) if count and reason is None else None,
        reason=reason,
    )


def _whole(number: float) -> float:
    return int(number) if number.is_integer() else number


def reason_of(stored: bytes | None) -> DeadLetterReason | None:
    """Why a message died, as ``reasons.lua`` has it; None if it is not known."""
    if stored is None:
        return None
    ms, _, why = stored.partition(b":")
    try:
        return DeadLetterReason(**json.loads(why), died_ms=int(ms))
    except (TypeError, ValueError, RecursionError):  # written by somebody else
        return None


def attributes_of(reply: Any) -> QueueAttributes:
    """What ``describe.lua`` tells of a queue."""
    fields, messages, hidden, next_due = reply
    vt, delay, maxsize, received, sent, created, modified, target, limit, paused = fields
    return QueueAttributes(
        vt=parse_seconds(vt),
        delay=parse_seconds(delay),
        maxsize=parse_maxsize(maxsize),
        total_received=parse_integer(received) or 0,
        total_sent=parse_integer(sent) or 0,
        created=parse_time(created),
        modified=parse_time(modified),
        messages=messages,
        hidden_messages=hidden,
        visible_messages=messages - hidden,
        next_due_ms=None if next_due is None else _whole(float(next_due)),
        dead_letter_queue=None if target is None else decode_name(target),
        max_receives=parse_integer(limit),
        paused=paused is not None,
    )
