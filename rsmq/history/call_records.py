"""
Figures of handler calls by task: distributions in a log scale, their stored form, their sums.

Bucket n has the durations from ``LOWEST_SECONDS * GROWTH ** n`` to ``GROWTH`` times that. Buckets
of several workers and times can be added, and the value of each is at most 2 % wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from rsmq.history.records import unpack_numbers

LOWEST_SECONDS, GROWTH = 1e-5, 1.04
#: The number of buckets: the last one also has all durations of more than nine days.
BUCKETS = 640
_SCALE = 1 / math.log(GROWTH)
_SHIFT = -math.log(LOWEST_SECONDS) * _SCALE

#: The buckets of histograms of Prometheus, seconds.
HISTOGRAM_SECONDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
    300.0, 600.0, 1800.0, 3600.0,
)  # fmt: skip
#: The metrics of tasks, by the attributes of ``CallCounts``: their names and texts.
TASK_COUNTERS = {
    "ended": ("rsmq_task_calls", "Calls that ended"),
    "failed": ("rsmq_task_failed", "Messages whose call failed, or could not begin"),
    "retried": ("rsmq_task_retried", "Messages hidden until a next attempt"),
    "dead_letters": ("rsmq_task_dead_letters", "Messages moved to a dead-letter queue"),
}
TASK_HISTOGRAMS = {
    "waits": ("rsmq_task_wait_seconds", "From the send of a message to its first call"),
    "durations": ("rsmq_task_duration_seconds", "How long calls take"),
}

Buckets = dict[int, int]


def bucket_of(seconds: float) -> int:
    """Return the bucket of a duration."""
    if seconds <= LOWEST_SECONDS:
        return 0
    bucket = int(math.log(seconds) * _SCALE + _SHIFT)
    return bucket if bucket < BUCKETS else BUCKETS - 1


def seconds_of(bucket: int) -> float:
    """Return the duration that a bucket stands for."""
    return LOWEST_SECONDS * GROWTH**bucket * 2 * GROWTH / (1 + GROWTH)


@dataclass(slots=True)
class CallCounts:
    """
    Counts of the calls of a task.

    Attributes:
        ended: calls that ended.
        failed: messages whose call failed, or could not begin.
        retried: those of them that were hidden until a next attempt.
        dead_letters: those that were moved to a dead-letter queue.
        waits: by bucket, calls by the time from the send of their message to this first call of it.
        durations: by bucket, calls by their duration.
    """

    ended: int = 0
    failed: int = 0
    retried: int = 0
    dead_letters: int = 0
    waits: Buckets = field(default_factory=dict)
    durations: Buckets = field(default_factory=dict)

    def add(self, other: CallCounts) -> None:
        """Add the counts of another time."""
        self.ended += other.ended
        self.failed += other.failed
        self.retried += other.retried
        self.dead_letters += other.dead_letters
        for own, added in ((self.waits, other.waits), (self.durations, other.durations)):
            for bucket, number in added.items():
                own[bucket] = own.get(bucket, 0) + number

    def pack(self) -> bytes:
        """Return them as a script reads them: a record without its queue and its time."""
        numbers = [0, 0, self.ended, self.failed, self.retried, self.dead_letters]
        for buckets in (self.waits, self.durations):
            numbers.append(len(buckets))
            before = 0
            for bucket in sorted(buckets):
                numbers += bucket - before, buckets[bucket]
                before = bucket
        return b"".join(map(_pack_number, numbers))


def _pack_number(number: int) -> bytes:
    packed = bytearray()
    while number > 127:  # noqa: PLR2004 - seven bits in each byte
        packed.append(number & 127 | 128)
        number >>= 7
    packed.append(number)
    return bytes(packed)


def parse_counts(record: bytes, created: int, begin: int = 0) -> tuple[int, CallCounts] | None:
    """
    Return the time of a stored record, in its unit, and its counts.

    Args:
        created: when the queue was created, Unix seconds.
        begin: the first time that counts.

    Returns:
        None if it is of an earlier queue of the name, or of an earlier time, or can't be read.
    """
    numbers = unpack_numbers(record)
    try:
        if next(numbers) != created or (at := next(numbers)) < begin:
            return None
        counts = CallCounts(next(numbers), next(numbers), next(numbers), next(numbers))
        for buckets in (counts.waits, counts.durations):
            bucket = 0
            for _ in range(next(numbers)):
                bucket += next(numbers)
                buckets[bucket] = next(numbers)
    except StopIteration:  # another program has written it
        return None
    return at, counts


@dataclass(frozen=True, slots=True)
class Percentiles:
    """
    Percentiles of durations, seconds; each is at most 2 % wrong.

    Attributes:
        p50: half of the durations are at most so long.
        p95: 95 % of them.
        p99: 99 % of them.
    """

    p50: float
    p95: float
    p99: float


def find_percentiles(buckets: Mapping[int, int]) -> Percentiles | None:
    """Return the percentiles of a distribution; None if it is empty."""
    if not buckets:
        return None
    places = sorted(buckets)
    ends = list(accumulate(buckets[each] for each in places))

    def find(share: float) -> float:
        rank = math.ceil(share * ends[-1])
        place = next(each for each, end in zip(places, ends, strict=True) if end >= rank)
        return float(f"{seconds_of(place):.4g}")

    return Percentiles(find(0.5), find(0.95), find(0.99))


def make_histogram(buckets: Mapping[int, int]) -> tuple[list[tuple[str, int]], float]:
    """Return a histogram as Prometheus has it: the number up to each bound, and the sum."""
    values = [(seconds_of(bucket), number) for bucket, number in buckets.items()]
    below = [
        (repr(bound), sum(number for value, number in values if value <= bound))
        for bound in HISTOGRAM_SECONDS
    ]
    total = math.fsum(value * number for value, number in values)
    return [*below, ("+Inf", sum(buckets.values()))], total


#: Workers write the calls of a minute within so many seconds after it, each at a time of its own.
WRITE_SECONDS = 10


@dataclass(frozen=True, slots=True)
class CallSpan:
    """
    A time that is shown, and the records that it consists of.

    Attributes:
        name: as in ``1h``.
        prefix: that of the fields with its records; a field is for a step, and is used again.
        minutes: the length of a step.
        steps: the number of its steps; the last one is not over.
    """

    name: str
    prefix: str
    minutes: int
    steps: int

    @property
    def fields(self) -> list[str]:
        """The prefixes of the fields of its steps."""
        return [f"{self.prefix}{slot}:" for slot in range(self.steps)]


CALL_SPANS = {
    each.name: each
    for each in (
        CallSpan("1h", "m", 1, 60),
        CallSpan("24h", "h", 60, 24),
        CallSpan("7d", "q", 360, 28),
        CallSpan("90d", "d", 1440, 90),
    )
}


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """
    The figures of a task, or of the messages of a queue that have no task.

    Attributes:
        queue: the name of the queue.
        task: the name of the task, or the type of a router's messages; empty for the others.
        start_ms: Unix ms of the first step.
        step: seconds of a step; the last one is not over.
        calls: calls that ended; of a batch one.
        failed: messages whose call failed, or could not begin.
        retried: messages that were hidden until a next attempt.
        dead_letters: messages that were moved to a dead-letter queue.
        running: calls that run now, as of the last signs of life of the workers.
        calls_per_minute: calls, divided by the minutes of all steps.
        wait: from the send of a message to its first call, delays included; of a batch that of its
            first message. None without any.
        duration: of calls; None without any.
        calls_by_step: calls in each step.
        failed_by_step: failed messages in each step.
    """

    queue: str
    task: str
    start_ms: int
    step: int
    calls: int
    failed: int
    retried: int
    dead_letters: int
    running: int
    calls_per_minute: float
    wait: Percentiles | None
    duration: Percentiles | None
    calls_by_step: list[int]
    failed_by_step: list[int]


def make_figures(
    name: tuple[str, str],
    span: CallSpan,
    minute: int,
    records: Iterable[tuple[int, CallCounts]],
    running: int,
) -> TaskFigures:
    """
    Return the figures of a task.

    Args:
        name: its queue, and its own.
        minute: the present one, Unix minutes.
        records: the steps with calls: their times in the unit of the span, and their counts.
        running: its calls that run now.
    """
    begin = minute // span.minutes - span.steps + 1
    total = CallCounts()
    calls, failed = [0] * span.steps, [0] * span.steps
    for at, counts in records:
        if 0 <= at - begin < span.steps:
            total.add(counts)
            calls[at - begin] += counts.ended
            failed[at - begin] += counts.failed
    return TaskFigures(
        *name,
        start_ms=begin * span.minutes * 60_000,
        step=span.minutes * 60,
        calls=total.ended,
        failed=total.failed,
        retried=total.retried,
        dead_letters=total.dead_letters,
        running=running,
        calls_per_minute=round(total.ended / (span.minutes * span.steps), 3),
        wait=find_percentiles(total.waits),
        duration=find_percentiles(total.durations),
        calls_by_step=calls,
        failed_by_step=failed,
    )
