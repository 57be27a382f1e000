"""
What happens in many queues: what waits in them, and what was sent and received in the last hour.

Both are read in batches. The last hour is that of the stored histories.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from redis.exceptions import ResponseError

from rsmq.history.operations import parse_created
from rsmq.history.records import (
    History,
    RecordedTotals,
    add_histories,
    make_history,
    parse_records,
    totals_of,
)
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass
from rsmq.transport.retry import is_limited_to_keys
from rsmq.web.each_queue import read_each
from rsmq.web.operations import load
from rsmq.web.table import Client
from rsmq.wire.keys import Namespace
from rsmq.wire.names import decode_name
from rsmq.wire.stored import parse_number

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
    """

    name: str
    messages: int
    visible: int
    visible_since_ms: float | None
    fresh: int
    fresh_since_ms: float | None
    dead_letter_queue: str | None
    paused_ms: float | None


@dataclass(frozen=True, slots=True)
class QueueActivity:
    """
    What was sent and received in a queue.

    Attributes:
        waiting_seconds: for how long the first visible message has been visible; None without one.
        dead_letters: messages in its dead-letter queue; None without a policy.
        sent_per_second: messages per second in the last one or two minutes; None if they were not
            recorded.
        received_per_second: receives per second, as above.
        sent_since: messages that were sent since the last record; None without a record.
        received_since: receives, as above.
        hour: the last hour in minutes.
    """

    waiting_seconds: float | None
    dead_letters: int | None
    sent_per_second: float | None
    received_per_second: float | None
    sent_since: int | None
    received_since: int | None
    hour: History


async def read_states(
    queues: Client, names: Iterable[str], fresh_seconds: float
) -> tuple[int, dict[str, QueueBacklog]]:
    """
    Return the server's time in Unix ms, and the states of those queues that exist.

    Args:
        fresh_seconds: messages that became visible so many seconds ago or later are counted.
    """
    now_ms = 0

    def read(namespace: Namespace, qnames: Sequence[str]) -> Operation[dict[str, QueueBacklog]]:
        keys = [namespace.queue(name) for name in qnames]

        def parse(reply: Any) -> dict[str, QueueBacklog]:
            nonlocal now_ms
            now_ms = int(reply[0])
            return {
                each.name: _parse_state(each.name, stored)
                for each, stored in zip(keys, reply[1:], strict=True)
                if stored
            }

        return Operation(
            load("queue_states"),
            tuple(key for each in keys for key in (each.hash, each.zset)),
            (digits(round(fresh_seconds * 1000)),),
            parse,
            RetryClass.ALWAYS,
        )

    of_cells = await read_each(queues, names, read)
    return now_ms, {name: _add_states(found) for name, found in of_cells.items()}


def _parse_state(name: str, stored: Any) -> QueueBacklog:
    messages, visible, first, fresh, first_fresh, target, paused = stored
    return QueueBacklog(
        name, messages, visible, parse_number(first), fresh, parse_number(first_fresh),
        target and decode_name(target), parse_number(paused),
    )  # fmt: skip


def _add_states(of_cells: Sequence[QueueBacklog]) -> QueueBacklog:
    first = of_cells[0]
    if len(of_cells) == 1:
        return first
    return QueueBacklog(
        first.name,
        sum(each.messages for each in of_cells),
        sum(each.visible for each in of_cells),
        _earliest(each.visible_since_ms for each in of_cells),
        sum(each.fresh for each in of_cells),
        _earliest(each.fresh_since_ms for each in of_cells),
        first.dead_letter_queue,
        _earliest(each.paused_ms for each in of_cells),
    )


def _earliest(times: Iterable[float | None]) -> float | None:
    return min((each for each in times if each is not None), default=None)


async def read_activities(
    queues: Client, targets: Mapping[str, str | None]
) -> dict[str, QueueActivity]:
    """
    Return what happens in queues; without those that can't be read.

    Args:
        targets: the queues, each with the dead-letter queue of its policy, or None.
    """

    def read(namespace: Namespace, qnames: Sequence[str]) -> Operation[dict[str, QueueActivity]]:
        return _queue_activities(namespace, {name: targets[name] for name in qnames})

    try:
        of_cells = await read_each(queues, targets, read)
    except ResponseError as error:
        if not is_limited_to_keys(error):
            raise
        return {}  # the user may not read histories
    return {name: _add_activities(found) for name, found in of_cells.items()}


def _queue_activities(
    namespace: Namespace, targets: Mapping[str, str | None]
) -> Operation[dict[str, QueueActivity]]:
    keys: list[bytes] = []
    for name, target in targets.items():
        own = namespace.queue(name)
        dead = own.zset if target is None else namespace.queue(target).zset
        keys += own.hash, own.zset, own.history, dead

    def parse(reply: Any) -> dict[str, QueueActivity]:
        now_ms = int(reply[0])
        return {
            name: _parse_activity(stored, now_ms)
            for name, stored in zip(targets, reply[1:], strict=True)
            if stored
        }

    return Operation(load("queue_activities"), tuple(keys), (), parse, RetryClass.ALWAYS)


def _parse_activity(stored: Any, now_ms: int) -> QueueActivity:
    score, dead_letters, sent, received, created, state, *chunks = stored
    first = parse_number(score)
    waits = None if first is None or first > now_ms else (now_ms - first) / 1000
    recorded = totals_of(state or b"", parse_created(created))
    if recorded is None:
        chunks = [None, None]
    minute = now_ms // _MINUTE_MS
    hour = _hour_before(chunks[0] or b"", chunks[1] or b"", minute // 60, minute)
    if recorded is None:
        return QueueActivity(waits, dead_letters, None, None, None, None, hour)
    sent_since = _since(sent, recorded.sent)
    received_since = _since(received, recorded.received)
    return QueueActivity(
        waits,
        dead_letters,
        _rate(sent_since, hour, hour.sent, recorded, now_ms),
        _rate(received_since, hour, hour.received, recorded, now_ms),
        sent_since,
        received_since,
        hour,
    )


def _since(total: bytes | None, recorded: int) -> int:
    now = int(parse_number(total) or 0)
    return now - recorded if now >= recorded else now  # a smaller one has begun again


def _rate(
    since: int, hour: History, column: list[int | None], recorded: RecordedTotals, now_ms: int
) -> float | None:
    """Return a rate from the last recorded minute, and what was counted since."""
    seconds = now_ms / 1000 - recorded.minute * 60
    if seconds > _MAX_SINCE_SECONDS:
        return None
    at = recorded.minute - 1 - hour.start_ms // _MINUTE_MS
    last = column[at] if 0 <= at < len(column) else None
    if last is None:
        return since / max(seconds, 1)
    return (last + since) / (seconds + 60)


@lru_cache(_CACHED_HISTORIES)
def _hour_before(before: bytes, now: bytes, hour: int, minute: int) -> History:
    """Return the last hour: chunks change once a minute, and pages read them every two seconds."""
    fields = {b"m%d" % (hour - 1): before, b"m%d" % hour: now}
    records = parse_records(fields, by_hours=False)
    return make_history(records, minute - _HOUR_MINUTES, minute, 1)


def _add_activities(of_cells: Sequence[QueueActivity]) -> QueueActivity:
    if len(of_cells) == 1:
        return of_cells[0]
    waits = [each.waiting_seconds for each in of_cells if each.waiting_seconds is not None]
    return QueueActivity(
        max(waits, default=None),
        _sum([each.dead_letters for each in of_cells]),
        _sum([each.sent_per_second for each in of_cells]),
        _sum([each.received_per_second for each in of_cells]),
        _sum([each.sent_since for each in of_cells]),
        _sum([each.received_since for each in of_cells]),
        add_histories([each.hour for each in of_cells]),
    )


def _sum(values: Sequence[Any]) -> Any:
    known = [each for each in values if each is not None]
    return sum(known) if known else None
