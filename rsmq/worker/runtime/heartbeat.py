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
from rsmq.worker.outcome import Again, HandlerTimedOut, decide
from rsmq.worker.runtime.executor import Executor
from rsmq.worker.runtime.message_state import Job, Lane, Lease
from rsmq.worker.runtime.run_queue import RunQueue
from rsmq.worker.runtime.settle import MESSAGES_PER_CALL, Settler, forget

_UNRENEWED = "its visibility timeout could not be extended in time"


class Heartbeat:
    """Keeps what the worker holds."""

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
        """When there is something to be extended; monotonic seconds."""
        return min((lane.renew_at for lane in self._lanes), default=math.inf)

    def renew(self, now: float) -> None:
        """Extend what is to be extended now."""
        for lane in self._lanes:
            if now < lane.renew_at:
                continue
            due = [lease for lease in lane.held.values() if lease.renew_at <= now]
            waiting = {lease.job for lease in due if lease.job.began is None}
            # Who waits so long has slow calls before it: others may have time for it.
            self.give_back(lane, [job for job in waiting if not job.alone])
            for lease in due:
                if lease.told:
                    self._settler.lose(lane, lease, "its visibility timeout was over")
            kept = [lease for lease in due if lane.held.get(lease.id) is lease]
            for at in range(0, len(kept), MESSAGES_PER_CALL):
                self._extend(lane, kept[at : at + MESSAGES_PER_CALL])
            lane.renew_at = min((each.renew_at for each in lane.held.values()), default=math.inf)

    def _extend(self, lane: Lane, leases: list[Lease]) -> None:
        by_count: dict[int, list[Lease]] = {}
        for lease in leases:
            by_count.setdefault(lease.count, []).append(lease)
        ms = round(lane.vt * 1000)
        groups: list[Group] = [
            Group(lane.keys, "extend", count, [(lease.id, ms) for lease in some])
            for count, some in by_count.items()
        ]
        began = time.monotonic()
        try:
            told = self._rsmq.run(settle_messages(self._identity, groups))
        except ResponseError as error:
            if not is_limited_to_keys(error):
                raise
            for lease in leases:
                self._settler.lose(lane, lease, f"its queue is broken: {error}")
            return
        ours = ord("1")
        for lease, digit in zip(chain.from_iterable(by_count.values()), told, strict=True):
            if digit == ours:
                lease.renew_at, lease.ends = began + lane.vt / 3, began + lane.vt
            else:
                self._settler.lose(lane, lease, "somebody has received or deleted it")

    def lose_what_has_ended(self) -> None:
        """Redis can't be reached: what is over by the clock may be somebody else's."""
        now = time.monotonic()
        for lane in self._lanes:
            for lease in list(lane.held.values()):
                if lease.ends <= now and lease.job.ended is None:
                    self._settler.lose(lane, lease, _UNRENEWED)

    def lose_all(self, why: str) -> None:
        """Nothing is held any more."""
        for lane in self._lanes:
            for lease in list(lane.held.values()):
                self._settler.lose(lane, lease, why)

    def give_back(self, lane: Lane, jobs: Iterable[Job]) -> None:
        """Release calls that have not begun."""
        with self._run_queue.lock:
            back = self._run_queue.take_back(jobs)
        for job in back:
            self._settler.release(lane, job.leases)
            for lease in job.leases:
                forget(lane, lease)

    def let_go_of_hung_calls(self, executors: Mapping[bool, Executor], now: float) -> None:
        """Wait no longer for calls that run longer than they may."""
        for lane in self._lanes:
            longest = lane.listener.max_runtime
            with self._run_queue.lock:
                calls = list(lane.calls)
            for job in calls:
                if job.began is not None and now - job.began > longest:
                    self._let_go(lane, job, executors[lane.is_async])

    def _let_go(self, lane: Lane, job: Job, executor: Executor) -> None:
        with self._run_queue.lock:
            if job.ended is not None or job.let_go:
                return
            job.let_go = True
            self._run_queue.end(job)
            executor.forget()
            executor.wake(0)
        error = HandlerTimedOut(f"its handler ran for more than {lane.listener.max_runtime:g} s")
        for lease in job.leases:
            self._settler.numbers.hung += 1
            if lease.lost:
                continue
            lease.lost = True
            self._hooks.call("lease_lost", lease.message(lane.name, lane.codec), str(error))
            outcome = decide(error, lease.count, lane.policy)
            if isinstance(outcome, Again):  # the handler may still run: nobody else begins soon
                outcome = Again(max(outcome.after, lane.vt), outcome.why)
            self._settler.end(lane, lease, outcome, error)
        lane.cancel(job)

    def let_go_of_all(self, why: str) -> int:
        """Release what is still held, whatever its handlers do; how many messages."""
        number = 0
        for lane in self._lanes:
            for lease in list(lane.held.values()):
                job = lease.job
                if lease.lost:
                    continue
                lease.lost = True
                self._hooks.call("lease_lost", lease.message(lane.name, lane.codec), why)
                self._settler.release(lane, [lease])
                lane.cancel(job)
                number += 1
        return number
