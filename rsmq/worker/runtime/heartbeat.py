"""
Renewal of leases, release of messages that wait too long, and max_runtime.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from redis.exceptions import ResponseError

from rsmq.client import RSMQ
from rsmq.operations.worker import Group, Identity, settle_messages
from rsmq.transport.retry import is_limited_to_keys
from rsmq.worker.middleware import Hooks
from rsmq.worker.outcome import HandlerTimedOut, Retried, decide
from rsmq.worker.runtime.executor import Executor
from rsmq.worker.runtime.message_state import Job, Lane, Lease
from rsmq.worker.runtime.run_queue import RunQueue
from rsmq.worker.runtime.settle import MESSAGES_PER_CALL, Settler, remove_in_flight

_NOT_EXTENDED = "its visibility timeout could not be extended in time"


class Heartbeat:
    """Keeps the leases of the messages in flight."""

    def __init__(  # noqa: PLR0917 - made in one place
        self,
        rsmq: RSMQ,
        identity: Identity,
        lanes: Sequence[Lane],
        settler: Settler,
        run_queue: RunQueue,
        hooks: Hooks,
    ) -> None:
        self._rsmq = rsmq
        self._identity = identity
        self._lanes = lanes
        self._settler = settler
        self._run_queue = run_queue
        self._hooks = hooks

    def renew_at(self) -> float:
        """Return the monotonic seconds at which the next visibility timeout is to be extended."""
        return min((lane.renew_at for lane in self._lanes), default=math.inf)

    def renew(self, now: float) -> None:
        """Extend the visibility timeouts that are due, and release messages that wait too long."""
        for lane in self._lanes:
            if now < lane.renew_at:
                continue
            due = [lease for lease in lane.in_flight.values() if lease.renew_at <= now]
            not_started = {lease.job for lease in due if lease.job.started_at is None}
            # Slow calls keep a message waiting for so long: another worker may have a free slot.
            self.release_waiting(lane, [job for job in not_started if not job.is_quarantined])
            for lease in due:
                if lease.is_loss_reported:
                    self._settler.mark_lost(lane, lease, "its visibility timeout was over")
            kept = [lease for lease in due if lane.in_flight.get(lease.id) is lease]
            for at in range(0, len(kept), MESSAGES_PER_CALL):
                self._extend(lane, kept[at : at + MESSAGES_PER_CALL])
            lane.renew_at = min(
                (each.renew_at for each in lane.in_flight.values()), default=math.inf
            )

    def _extend(self, lane: Lane, leases: list[Lease]) -> None:
        by_count: dict[int, list[Lease]] = {}
        for lease in leases:
            by_count.setdefault(lease.count, []).append(lease)
        ms = round(lane.vt * 1000)
        groups: list[Group] = [
            Group(lane.keys, "extend", count, [(lease.id, ms) for lease in of_count])
            for count, of_count in by_count.items()
        ]
        sent_at = time.monotonic()
        try:
            results = self._rsmq.run(settle_messages(self._identity, groups))
        except ResponseError as error:
            if not is_limited_to_keys(error):
                raise
            for lease in leases:
                self._settler.mark_lost(lane, lease, f"its queue is broken: {error}")
            return
        extended = ord("1")
        for lease, digit in zip(chain.from_iterable(by_count.values()), results, strict=True):
            if digit == extended:
                lease.renew_at, lease.expires_at = sent_at + lane.vt / 3, sent_at + lane.vt
            else:
                self._settler.mark_lost(lane, lease, "another consumer has received or deleted it")

    def lose_expired(self) -> None:
        """Mark expired leases as lost, because Redis is unreachable and they can't be extended."""
        now = time.monotonic()
        for lane in self._lanes:
            for lease in list(lane.in_flight.values()):
                if lease.expires_at <= now and lease.job.ended_at is None:
                    self._settler.mark_lost(lane, lease, _NOT_EXTENDED)

    def lose_all(self, reason: str) -> None:
        """Mark all leases as lost."""
        for lane in self._lanes:
            for lease in list(lane.in_flight.values()):
                self._settler.mark_lost(lane, lease, reason)

    def release_waiting(self, lane: Lane, jobs: Iterable[Job]) -> None:
        """Release the messages of calls that have not started."""
        with self._run_queue.lock:
            removed = self._run_queue.remove(jobs)
        for job in removed:
            self._settler.release(lane, job.leases)
            for lease in job.leases:
                remove_in_flight(lane, lease)

    def abandon_hung_calls(self, executors: Mapping[bool, Executor], now: float) -> None:
        """Stop waiting for calls that exceed max_runtime, and settle their messages as failed."""
        for lane in self._lanes:
            max_runtime = lane.listener.max_runtime
            with self._run_queue.lock:
                calls = list(lane.calls)
            for job in calls:
                if job.started_at is not None and now - job.started_at > max_runtime:
                    self._abandon(lane, job, executors[lane.is_async])

    def _abandon(self, lane: Lane, job: Job, executor: Executor) -> None:
        with self._run_queue.lock:
            if job.ended_at is not None or job.is_abandoned:
                return
            job.is_abandoned = True
            self._run_queue.finish(job)
            executor.replace_hung()
            executor.wake(0)
        error = HandlerTimedOut(f"its handler ran for more than {lane.listener.max_runtime:g} s")
        for lease in job.leases:
            self._settler.numbers.hung += 1
            if lease.is_lost:
                continue
            lease.is_lost = True
            self._hooks.call("lease_lost", lease.to_delivery(lane.name, lane.codec), str(error))
            outcome = decide(error, lease.count, lane.policy)
            if isinstance(outcome, Retried):  # the handler may still run: delay the next attempt
                outcome = Retried(max(outcome.delay_seconds, lane.vt), outcome.reason)
            self._settler.add_decision(lane, lease, outcome, error)
        lane.cancel(job)

    def release_all(self, reason: str) -> int:
        """Release all messages in flight, even if their handlers still run. Return how many."""
        released = 0
        for lane in self._lanes:
            for lease in list(lane.in_flight.values()):
                job = lease.job
                if lease.is_lost:
                    continue
                lease.is_lost = True
                self._hooks.call("lease_lost", lease.to_delivery(lane.name, lane.codec), reason)
                self._settler.release(lane, [lease])
                lane.cancel(job)
                released += 1
        return released
