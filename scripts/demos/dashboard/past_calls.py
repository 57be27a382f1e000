"""
The calls of workers in the past of the demo, in the form in which workers record them.

They are counted by the minute, the hour, the quarter of a day and the day, as in call_records.lua.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import redis

from rsmq.history.call_records import CALL_SPANS, CallCounts, bucket_of

_chance = random.Random(11)  # noqa: S311


@dataclass(frozen=True)
class Calls:
    """
    The calls of the workers of a queue.

    Attributes:
        seconds: how long one takes.
        failing: of a hundred calls, those that fail while all is calm.
        failing_more: the same while orders and mails have faults.
        most: calls in a minute that the workers can make.
    """

    seconds: float
    failing: float = 0
    failing_more: float = 0
    most: int = 100_000


CALLS = {
    "orders": Calls(0.021, failing=2, failing_more=14),
    "mail": Calls(0.1, failing_more=12),
    "search-index": Calls(0.5, most=230),
    "thumbnails": Calls(3, most=38),
    "exports": Calls(14, most=20),
    "reports": Calls(1),
}


def record_past_calls(
    raw: redis.Redis, queue: str, created: int, now: int, sent: Sequence[int], *, is_calm: bool
) -> None:
    """
    Record the calls of a queue, without those of tasks.

    Args:
        created: when the queue was created, Unix seconds.
        now: the present Unix minute.
        sent: the messages that were sent in each minute up to the present one, which is the last.
        is_calm: whether nothing was wrong.
    """
    calls = CALLS[queue] if is_calm else replace(CALLS[queue], failing=CALLS[queue].failing_more)
    minutes = [min(each, calls.most) for each in sent]
    fields: dict[str, bytes] = {}
    for span in CALL_SPANS.values():
        by_step: dict[int, int] = {}
        for ago, number in enumerate(reversed(minutes)):
            step = (now - ago) // span.minutes
            by_step[step] = by_step.get(step, 0) + number
        for step in sorted(by_step)[-span.steps :]:
            field = f"{span.prefix}{step % span.steps}:"
            fields[field] = _pack(created, step, _count(calls, by_step[step]))
    key = f"rsmq:{queue}:x:"
    raw.hset(f"{key}call_times", "bytes", sum(map(len, fields.values())))
    for field, record in fields.items():
        raw.hset(f"{key}call_times", field, record)
    raw.hset(f"{key}calls", "", _pack(created, now, _count(calls, sum(minutes))))


def _count(calls: Calls, number: int) -> CallCounts:
    failed = round(number * calls.failing / 100 * _chance.uniform(0.8, 1.2))
    return CallCounts(
        number, failed, failed, 0,
        _spread(number, 0.004), _spread(number, calls.seconds),
    )  # fmt: skip


def _spread(number: int, seconds: float) -> dict[int, int]:
    """Return the distribution of some durations around a typical one."""
    found: dict[int, int] = {}
    for share, times in ((0.5, 1.0), (0.3, 1.2), (0.16, 1.7), (0.04, 3.0)):
        bucket = bucket_of(seconds * times)
        found[bucket] = found.get(bucket, 0) + round(number * share)
    return {bucket: count for bucket, count in found.items() if count}


def _pack(created: int, at: int, counts: CallCounts) -> bytes:
    """Return a record with its queue and its time, which ``pack`` leaves at zero."""
    return _pack_number(created) + _pack_number(at) + counts.pack()[2:]


def _pack_number(number: int) -> bytes:
    packed = bytearray()
    while number > 127:  # noqa: PLR2004 - seven bits in each byte
        packed.append(number & 127 | 128)
        number >>= 7
    packed.append(number)
    return bytes(packed)
