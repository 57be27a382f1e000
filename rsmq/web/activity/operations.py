"""
Operations that read what happens in many queues. The last hour is that of the stored histories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from rsmq.explain.observed import RepeatedReceives
from rsmq.explain.operations import parse_repeated
from rsmq.history.operations import parse_created
from rsmq.history.records import (
    History,
    RecordedTotals,
    last_minute_of,
    make_history,
    parse_records,
    totals_of,
)
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass
from rsmq.web.operations import load
from rsmq.wire.keys import Namespace
from rsmq.wire.names import decode_name
from rsmq.wire.stored import parse_number, parse_time

#: Seconds for which dead letters are new.
NEW_SECONDS = 3600
_MINUTE_MS = 60_000
_HOUR_MINUTES = 60
#: A rate is not known if nothing was recorded for so long.
_MAX_SINCE_SECONDS = 180
_CACHED_HISTORIES = 2048


@dataclass(frozen=True, slots=True)
class QueueBacklog:
    """
    What waits in a queue.

    Attributes:
        name: its name.
        messages: messages in it.
        visible: those that are visible now.
        visible_since_ms: Unix ms since when the first visible one is visible; None without one.
        fresh: those that became visible within the time that was asked for.
        fresh_since_ms: Unix ms at which the first of these did.
        dead_letter_queue: that of its policy; None without a policy.
        paused_ms: Unix ms of its pause; None if it is not paused.
        vt: its visibility timeout in seconds.
        repeated: the receives that ended without a delete, of its next hidden messages.
        has_reasons: whether workers have moved messages to it, as their dead-letter queue.
        sent: messages that were ever sent; None if that is not stored.
        received: receives, as above.
        created: Unix seconds of its creation, as above.
        modified: when its attributes were set; None if that is not stored.
        resumed_ms: Unix ms of its last resume; None without one.
    """

    name: str
    messages: int
    visible: int
    visible_since_ms: float | None
    fresh: int
    fresh_since_ms: float | None
    dead_letter_queue: str | None
    paused_ms: float | None
    vt: float = 0
    repeated: RepeatedReceives = field(default_factory=RepeatedReceives)
    has_reasons: bool = False
    sent: float | None = None
    received: float | None = None
    created: float | None = None
    modified: datetime | None = None
    resumed_ms: float | None = None


@dataclass(frozen=True, slots=True)
class QueueActivity:
    """
    What was sent and received in a queue.

    Attributes:
        waiting_seconds: for how long the first visible message has been visible; None without one.
        dead_letters: messages in its dead-letter queue; None without a policy.
        has_reasons: whether workers have moved messages to it, as their dead-letter queue.
        sent_per_second: messages per second in the last one or two minutes; None if they were not
            recorded.
        received_per_second: receives per second, as above.
        sent_since: messages that were sent since the last record; None without a record.
        received_since: receives, as above.
        hour: the last hour in minutes.
    """

    waiting_seconds: float | None
    dead_letters: int | None
    has_reasons: bool
    sent_per_second: float | None
    received_per_second: float | None
    sent_since: int | None
    received_since: int | None
    hour: History


@dataclass(frozen=True, slots=True)
class QueueRate:
    """Messages and receives of a queue in a second, as ``QueueActivity`` has them."""

    sent_per_second: float
    received_per_second: float


def queue_states(
    namespace: Namespace, qnames: Sequence[str], fresh_seconds: float
) -> Operation[dict[str, QueueBacklog]]:
    """
    Return what waits in those queues that exist.

    Args:
        fresh_seconds: messages that became visible so many seconds ago or later are counted.
    """
    keys = [namespace.queue(name) for name in qnames]

    def parse(reply: Any) -> dict[str, QueueBacklog]:
        return {
            each.name: _parse_state(each.name, stored)
            for each, stored in zip(keys, reply, strict=True)
            if stored
        }

    return Operation(
        load("queue_states"),
        tuple(key for each in keys for key in (each.hash, each.zset)),
        (digits(round(fresh_seconds * 1000)),),
        parse,
        RetryClass.ALWAYS,
    )


def _parse_state(name: str, stored: Any) -> QueueBacklog:
    messages, visible, first, fresh, first_fresh, target, paused, *rest = stored
    vt, has_reasons, sent, received, created, modified, resumed, *repeated = rest
    return QueueBacklog(
        name, messages, visible, parse_number(first), fresh, parse_number(first_fresh),
        target and decode_name(target), parse_number(paused), parse_number(vt) or 0,
        parse_repeated(repeated), bool(has_reasons), parse_number(sent), parse_number(received),
        parse_number(created), parse_time(modified), parse_number(resumed),
    )  # fmt: skip


def queue_activities(
    namespace: Namespace, targets: Mapping[str, str | None]
) -> Operation[dict[str, QueueActivity]]:
    """
    Return what was sent and received in queues, and what waits; without those that can't be read.

    Args:
        targets: the queues, each with the dead-letter queue of its policy, or None.
    """
    keys: list[bytes] = []
    for name, target in targets.items():
        own = namespace.queue(name)
        dead = own.zset if target is None else namespace.queue(target).zset
        keys += own.hash, own.zset, own.history, dead, own.reasons

    def parse(reply: Any) -> dict[str, QueueActivity]:
        now_ms = int(reply[0])
        return {
            name: _parse_activity(stored, now_ms)
            for name, stored in zip(targets, reply[1:], strict=True)
            if stored
        }

    return Operation(load("queue_activities"), tuple(keys), (), parse, RetryClass.ALWAYS)


def _parse_activity(stored: Any, now_ms: int) -> QueueActivity:
    score, dead_letters, has_reasons, sent, received, created, state, *chunks = stored
    first = parse_number(score)
    waits = None if first is None or first > now_ms else (now_ms - first) / 1000
    recorded = totals_of(state or b"", parse_created(created))
    if recorded is None:
        chunks = [None, None]
    minute = now_ms // _MINUTE_MS
    hour = _hour_before(chunks[0] or b"", chunks[1] or b"", minute // 60, minute)
    if recorded is None:
        return QueueActivity(waits, dead_letters, bool(has_reasons), None, None, None, None, hour)
    sent_since = _since(sent, recorded.sent)
    received_since = _since(received, recorded.received)
    return QueueActivity(
        waits,
        dead_letters,
        bool(has_reasons),
        _rate(sent_since, _last(hour, hour.sent, recorded), recorded, now_ms),
        _rate(received_since, _last(hour, hour.received, recorded), recorded, now_ms),
        sent_since,
        received_since,
        hour,
    )


def _since(total: bytes | None, recorded: int) -> int:
    now = int(parse_number(total) or 0)
    return now - recorded if now >= recorded else now  # a smaller one has begun again


def _last(hour: History, column: list[int | None], recorded: RecordedTotals) -> int | None:
    """Return the value of the last recorded minute."""
    at = recorded.minute - 1 - hour.start_ms // _MINUTE_MS
    return column[at] if 0 <= at < len(column) else None


def _rate(since: int, last: int | None, recorded: RecordedTotals, now_ms: int) -> float | None:
    """Return a rate from the last recorded minute, and what was counted since."""
    seconds = now_ms / 1000 - recorded.minute * 60
    if seconds > _MAX_SINCE_SECONDS:
        return None
    if last is None:
        return since / max(seconds, 1)
    return (last + since) / (seconds + 60)


def queue_rates(namespace: Namespace, qnames: Sequence[str]) -> Operation[dict[str, QueueRate]]:
    """Return the rates of those queues of which they are known."""
    queues = [namespace.queue(name) for name in qnames]

    def parse(reply: Any) -> dict[str, QueueRate]:
        now_ms = int(reply[0])
        rates = (
            (keys.name, _parse_rate(stored, now_ms))
            for keys, stored in zip(queues, reply[1:], strict=True)
            if stored
        )
        return {name: rate for name, rate in rates if rate is not None}

    keys = tuple(key for each in queues for key in (each.hash, each.history))
    return Operation(load("queue_rates"), keys, (), parse, RetryClass.ALWAYS)


def _parse_rate(stored: Any, now_ms: int) -> QueueRate | None:
    sent, received, created, state, tail = stored
    recorded = totals_of(state or b"", parse_created(created))
    if recorded is None:
        return None
    last_sent, last_received = last_minute_of(tail or b"", recorded.minute) or (None, None)
    sent_rate = _rate(_since(sent, recorded.sent), last_sent, recorded, now_ms)
    received_rate = _rate(_since(received, recorded.received), last_received, recorded, now_ms)
    if sent_rate is None or received_rate is None:
        return None
    return QueueRate(sent_rate, received_rate)


@lru_cache(_CACHED_HISTORIES)
def _hour_before(before: bytes, now: bytes, hour: int, minute: int) -> History:
    """Return the last hour: chunks change once a minute, and pages read them every two seconds."""
    fields = {b"m%d" % (hour - 1): before, b"m%d" % hour: now}
    records = parse_records(fields, by_hours=False)
    return make_history(records, minute - _HOUR_MINUTES, minute, 1)
