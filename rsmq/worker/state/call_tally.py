"""
The counts of the calls of a worker, by queue and task, until the next minute.

The calls of a turn of the loop are counted together, and the loop has their durations already. Of
a task with many calls only some are measured, and stand for the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from rsmq.history.call_records import Buckets, CallCounts, bucket_of
from rsmq.wire.ids import parse_sent_us
from rsmq.wire.keys import QueueKeys
from rsmq.worker.outcome import DeadLettered, Outcome, Retried

#: A call and its lane; ``calls.py`` and ``lane.py``, which are above, have their types.
Job: TypeAlias = Any
Lane: TypeAlias = Any

#: So many calls of a task are measured in a minute, and of further ones each 64th.
MEASURED_CALLS, CALLS_PER_SAMPLE = 1000, 64


class CallTally:
    """The counts of a worker. Only the loop's thread uses it."""

    def __init__(self) -> None:
        self._counts: dict[tuple[Lane, str], CallCounts] = {}

    def _counts_of(self, job: Job) -> CallCounts:
        key = job.lane, job.message_type
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = CallCounts()
        return counts

    def count_calls(self, jobs: Sequence[Job]) -> None:
        """Count calls that have ended, all of one task."""
        if not jobs:
            return
        counts = self._counts_of(jobs[0])
        before, counts.ended = counts.ended, counts.ended + len(jobs)
        number = 1 if counts.ended <= MEASURED_CALLS else CALLS_PER_SAMPLE
        for job in jobs[number - 1 - before % number :: number]:
            _measure(counts, job, number)

    def count_outcome(self, job: Job, outcome: Outcome, *, is_failure: bool) -> None:
        """
        Count the outcome of a message that was not handled.

        Args:
            is_failure: whether it has failed; a requested retry, a deferral and a discard have not.
        """
        counts = self._counts_of(job)
        counts.failed += is_failure
        counts.retried += isinstance(outcome, Retried)
        counts.dead_letters += isinstance(outcome, DeadLettered)

    def take(self) -> Iterator[tuple[QueueKeys, list[tuple[str, bytes]]]]:
        """Yield what was counted of the tasks of each queue, and forget it."""
        counted, self._counts = self._counts, {}
        by_queue: dict[QueueKeys, list[tuple[str, bytes]]] = {}
        for (lane, task), counts in counted.items():
            by_queue.setdefault(lane.keys, []).append((task, counts.pack()))
        yield from by_queue.items()


def _measure(counts: CallCounts, job: Job, number: int) -> None:
    """Add the duration of a call, and the wait of its first message, for a number of calls."""
    _add(counts.durations, job.ended_at - job.started_at, number)
    lease = job.leases[0]
    if lease.count == 1 and lease.first_received_ms is not None:
        sent_us = parse_sent_us(lease.id, lease.first_received_ms)
        if sent_us is not None:
            waited = lease.first_received_ms / 1e3 - sent_us / 1e6
            _add(counts.waits, waited + job.started_at - job.received_at, number)


def _add(buckets: Buckets, seconds: float, number: int) -> None:
    bucket = bucket_of(seconds)
    buckets[bucket] = buckets.get(bucket, 0) + number
