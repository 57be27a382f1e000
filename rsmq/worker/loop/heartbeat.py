"""
Renewal of leases, release of messages that wait too long, and max_runtime.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain

from redis.exceptions import ResponseError

from rsmq.errors import TooManyHungCalls
from rsmq.transport.retry import is_limited_to_keys
from rsmq.worker.connection import WorkerConnection
from rsmq.worker.middleware import Hooks
from rsmq.worker.operations import Settlement, TrackedOutcome, settle_messages
from rsmq.worker.outcome import HandlerTimedOut, Retried, decide
from rsmq.worker.run.executor import Executor
from rsmq.worker.run.run_queue import RunQueue
from rsmq.worker.settle.settler import MESSAGES_PER_STEP, Settler, with_cancel
from rsmq.worker.state.calls import Job, Lease
from rsmq.worker.state.error_reader import read_error
from rsmq.worker.state.jobs import TrackedJob
from rsmq.worker.state.lane import Lane
from rsmq.worker.state.message_state import (
    ABANDON_CALL,
    DECIDE,
    LOST,
    OVER,
    READY,
    SETTLED,
    SETTLING,
    change_call,
    change_message,
)

_NOT_EXTENDED = "its visibility timeout could not be extended in time"
#: How long after max_runtime a call in a child process is abandoned, if its process does not end.
_MAX_CHILD_END_SECONDS = 30.0
#: The same for a task that was cancelled after max_runtime.
_MAX_TASK_END_SECONDS = 5.0
#: A message that waits for a slot is extended once, and released after this share of its visibility
#: timeout.
_MAX_WAIT_VT_SHARE = 0.5


class Heartbeat:
    """Keeps the leases of the messages in flight."""

    def __init__(
        self,
        connection: WorkerConnection,
        lanes: Sequence[Lane],
        settler: Settler,
        run_queue: RunQueue,
        hooks: Hooks,
    ) -> None:
        self._connection = connection
        self._lanes = lanes
        self._settler = settler
        self._run_queue = run_queue
        self._hooks = hooks

    def renew_at(self) -> float:
        """Return the monotonic seconds at which the next visibility timeout is to be extended."""
        return min((lane.in_flight.renew_at for lane in self._lanes), default=math.inf)

    def renew(self, now: float) -> None:
        """Extend the visibility timeouts that are due, and release messages that wait too long."""
        for lane in self._lanes:
            if now >= lane.in_flight.renew_at:
                self._connection.attempt(partial(self._renew, lane, now))

    def _renew(self, lane: Lane, now: float) -> None:
        in_flight = lane.in_flight
        due = in_flight.due(now)
        # Slow calls keep these waiting for so long: another worker may have a free slot.
        waiting = {
            lease.job
            for lease in due
            if lease.state is READY
            and not lease.job.is_quarantined
            and now - lease.job.received_at > lane.vt * _MAX_WAIT_VT_SHARE
        }
        self.release_waiting(waiting)
        for lease in due:
            if lease.state in OVER:
                self._settler.mark_lost(lease.job.lane, lease, "its visibility timeout was over")
        for part in lane.parts:
            kept = [each for each in due if each in in_flight and each.job.lane is part]
            for at in range(0, len(kept), MESSAGES_PER_STEP):
                self._extend(part, kept[at : at + MESSAGES_PER_STEP])
        in_flight.plan_renewal()

    def _extend(self, lane: Lane, leases: list[Lease]) -> None:
        by_count: dict[int, list[Lease]] = {}
        for lease in leases:
            by_count.setdefault(lease.count, []).append(lease)
        ms = round(lane.vt * 1000)
        progress = {lease: lease.new_progress for lease in leases}
        groups: list[Settlement] = [
            Settlement(
                lane.keys,
                "extend",
                count,
                [(lease.id, ms) for lease in of_count],
                tracked=_describe_progress(lane, [progress[lease] for lease in of_count]),
            )
            for count, of_count in by_count.items()
        ]
        sent_at = time.monotonic()
        try:
            results = self._connection.run(settle_messages(self._connection.identity, groups))
        except ResponseError as error:
            if not is_limited_to_keys(error):
                raise
            for lease in leases:
                self._settler.mark_lost(lane, lease, f"its queue is broken: {error}")
            return
        extended, is_to_be_cancelled = b"13"
        expires_at, renew_at = sent_at + lane.vt, lane.renewal_after(sent_at)
        cancelled = []
        for lease, digit in zip(chain.from_iterable(by_count.values()), results, strict=True):
            is_cancelled = digit == is_to_be_cancelled
            if digit == extended or is_cancelled:
                lane.in_flight.extend(lease, expires_at, renew_at)
            else:
                self._settler.mark_lost(lane, lease, "another consumer has received or deleted it")
            if isinstance(lease, TrackedJob):
                if lease.note_progress_written(progress[lease]):
                    lane.renew_lease_soon(lease)
                if is_cancelled and lease.mark_cancelled():
                    cancelled.append(lease)
        self._cancel(cancelled)

    def _cancel(self, jobs: Sequence[TrackedJob]) -> None:
        """Cancel calls whose jobs are to be cancelled."""
        # A release of such a message cancels the job.
        self.release_waiting(job for job in jobs if job.state is READY and not job.is_quarantined)
        for job in jobs:
            job.lane.cancel(job)

    def renew_soon(self, job: TrackedJob) -> None:
        """Extend the lease of a call soon, because it has progress to be written."""
        job.lane.renew_lease_soon(job)

    def lose_expired(self) -> None:
        """Mark expired leases as lost while Redis fails, because they can't be extended."""
        if not self._connection.is_pausing:
            return
        now = time.monotonic()
        for lane in self._lanes:
            for lease in list(lane.in_flight):
                if lease.expires_at <= now and lease.job.ended_at is None:
                    self._settler.mark_lost(lease.job.lane, lease, _NOT_EXTENDED)

    def lose_all(self, reason: str) -> None:
        """Mark all leases as lost."""
        for lane in self._lanes:
            for lease in list(lane.in_flight):
                self._settler.mark_lost(lease.job.lane, lease, reason)

    def release_waiting(self, jobs: Iterable[Job]) -> None:
        """Release the messages of calls that have not started."""
        with self._run_queue.lock:
            removed = self._run_queue.remove(jobs)
        for job in removed:
            self._settler.release(job.lane, job.leases)

    def abandon_hung_calls(
        self, executors: Mapping[bool, Executor], now: float, *, limit: int
    ) -> None:
        """
        Cancel tasks that exceed max_runtime. Stop waiting for other calls that exceed it, and for
        tasks that don't end, and settle their messages as failed.

        Args:
            executors: the executor of async handlers (True) and of plain ones (False).
            now: monotonic seconds.
            limit: maximum number of abandoned calls that have not ended.

        Raises:
            TooManyHungCalls: so many are abandoned already.
        """
        for lane in chain.from_iterable(each.parts for each in self._lanes):
            if lane.is_stalled:  # its event loop can't cancel them
                continue
            max_runtime, end_seconds = lane.listener.max_runtime, 0.0
            if lane.listener.process:  # its thread ends the child process, and so the call
                end_seconds = _MAX_CHILD_END_SECONDS
            elif lane.is_async:
                end_seconds = _MAX_TASK_END_SECONDS
            with self._run_queue.lock:
                calls = lane.own_calls()
            for job in calls:
                if job.started_at is None or now - job.started_at <= max_runtime:
                    continue
                lane.time_out(job)
                if now - job.started_at > max_runtime + end_seconds:
                    if sum(each.hung_count for each in executors.values()) >= limit:
                        raise TooManyHungCalls(limit)
                    reason = f"its handler ran for more than {max_runtime:g} s"
                    self._abandon(lane, job, executors[lane.is_async], HandlerTimedOut(reason))

    def fail_blocking_call(self, job: Job, executor: Executor) -> None:
        """Settle the messages of a call as failed that has blocked the event loop for too long."""
        seconds = job.lane.listener.max_blocking
        reason = f"its handler blocked the event loop of all async handlers for {seconds:g} s"
        self._abandon(job.lane, job, executor, HandlerTimedOut(reason))

    def _abandon(self, lane: Lane, job: Job, executor: Executor, error: HandlerTimedOut) -> None:
        with self._run_queue.lock:
            # A call that has ended is reported to the loop before its slot is freed.
            if job.ended_at is not None or not change_call(job, ABANDON_CALL):
                return
            for lease in job.leases:
                change_message(lease, DECIDE)
            self._run_queue.finish(job)
            executor.replace_hung()
            executor.wake(0)
        failure = read_error(error, lane.policy)
        self._settler.numbers.hung += len(job.leases)
        for lease in job.leases:
            if lease.state is not SETTLING:
                self._settler.mark_lost(lane, lease, "its visibility timeout was over")
                continue
            self._hooks.call("lease_lost", lease.to_delivery(lane.name, lane.codec), str(error))
            own_failure = with_cancel(lease, failure)
            outcome = decide(own_failure, lease.attempt, lease.policy)
            if isinstance(outcome, Retried):  # the handler may still run: delay the next attempt
                outcome = Retried(max(outcome.delay_seconds, lane.vt), outcome.reason)
            self._settler.add_decision(lane, lease, outcome, own_failure)
        lane.cancel(job)

    def release_all(self, reason: str) -> int:
        """Release all messages in flight, even if their handlers still run. Return how many."""
        released = 0
        for lane in self._lanes:
            with self._run_queue.lock:
                leases = list(lane.in_flight)
                for lease in leases:
                    change_call(lease.job, ABANDON_CALL)
            released += sum(
                self._release_abandoned(lease.job.lane, lease, reason) for lease in leases
            )
        return released

    def release_calls(self, jobs: Iterable[Job], reason: str, *, are_attempts: bool) -> None:
        """Release the messages of abandoned calls; see ``Settler.release`` for are_attempts."""
        for job in jobs:
            for lease in job.leases:
                self._release_abandoned(job.lane, lease, reason, are_attempts=are_attempts)

    def _release_abandoned(
        self, lane: Lane, lease: Lease, reason: str, *, are_attempts: bool = False
    ) -> bool:
        if lease.state in {SETTLING, SETTLED, LOST}:
            return False
        self._hooks.call("lease_lost", lease.to_delivery(lane.name, lane.codec), reason)
        self._settler.release(lane, [lease], are_attempts=are_attempts)
        lane.cancel(lease.job)
        return True


def _describe_progress(lane: Lane, progress: Sequence[bytes]) -> TrackedOutcome | None:
    """Return what the records of messages get whose leases are extended."""
    ttl = lane.listener.result_ttl
    return None if ttl is None else TrackedOutcome("progress", ttl, [b""] * len(progress), progress)
