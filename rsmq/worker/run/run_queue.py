"""
The run queue: received messages that wait for a slot.

Lanes of a higher priority go first. Lanes of one priority take turns, within the limits of each: in
a ``SharingRunQueue`` by their weights.
If a lane reserves slots, the limits of all depend on the running calls (``state/reservations.py``).
A call in quarantine starts when all others have ended or run for long; no other call starts before
it has ended.
"""

from __future__ import annotations

import itertools
import math
import operator
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rsmq.worker.run.executor import Executor
from rsmq.worker.state.calls import Job
from rsmq.worker.state.jobs import SingleJob
from rsmq.worker.state.lane import Lane
from rsmq.worker.state.message_state import (
    ABANDON_CALL,
    BEGIN,
    BEGIN_CALL,
    CALL_WAITING,
    END_CALL,
    EXPIRE,
    WITHDRAW_CALL,
    change_call,
    change_message,
)
from rsmq.worker.state.reservations import SlotUse, compute_limits
from rsmq.worker.state.shares import Shares

_lane_of = operator.attrgetter("lane")

#: The time within which waiting calls should start.
TARGET_START_SECONDS = 0.001
#: For how long threads leave a slot to tasks that do not take it, and the other way round. A
#: handler may block the event loop.
_MAX_LEFT_SECONDS = 1.0


class RunQueue:
    """
    The calls that wait for a slot, and the running ones.

    Attributes:
        lock: to be held during every access; also the lock of the lanes.
        running_count: number of running calls.
        quarantined_job: the call in quarantine that starts next or runs; None if there is none.
        is_exclusive: whether no call may start except quarantined_job.
        start_deadline: monotonic seconds after which no call starts, because other workers may
            consider this one dead.
        shares: by lane, the shares of the lanes of its priority; None if their weights are equal.
        is_strict: whether a lower priority gets no call while a higher one has due messages.
        executors: the executor of async handlers (True) and of plain ones (False). Written by
            ``WorkerLoop`` before the first call.
    """

    shares: Mapping[Lane, Shares[Lane]] | None = None
    is_strict = False

    def __init__(self, lanes: Sequence[Lane], slots: int) -> None:
        """
        Make an empty one.

        Args:
            lanes: the listeners.
            slots: maximum number of concurrent calls.
        """
        self.lock = threading.Lock()
        calls_of_levels: dict[str, dict[Job, None]] = {}
        for lane in lanes:
            level_of = lane.listener.level_of
            for part in lane.parts:
                part.lock = self.lock
                if level_of is not None:
                    part.calls = calls_of_levels.setdefault(level_of, lane.calls)
        self.running_count = 0
        self.quarantined_job: Job | None = None
        self.is_exclusive = False
        self.start_deadline = math.inf
        self._slots = slots
        self._main_lanes = lanes
        self._lanes = [part for lane in lanes for part in lane.parts]
        #: The lanes that have waiting calls, for tasks (True) and for threads.
        self._lanes_with_ready: dict[bool, dict[Lane, None]] = {False: {}, True: {}}
        self._turns = itertools.count(1)
        self.executors: Mapping[bool, Executor] = {}
        self._has_reservations = any(lane.reserved for lane in lanes)
        if self._has_reservations:
            self._update_limits()

    def add(self, jobs: Iterable[Job]) -> None:
        """Add calls that wait for a slot."""
        for lane, of_lane in itertools.groupby(jobs, _lane_of):
            if not lane.ready:
                self._lanes_with_ready[lane.is_async][lane] = None
            before = len(lane.ready)
            lane.ready.extend(of_lane)
            if lane.ready[before].is_urgent:  # urgent calls come first, if there are any
                lane.urgent_count += sum(
                    job.is_urgent for job in itertools.islice(lane.ready, before, None)
                )

    def remove(self, jobs: Iterable[Job]) -> list[Job]:
        """Withdraw those of these calls that have not started, and return them."""
        removed = []
        for job in jobs:
            if job.call_state is CALL_WAITING and job in job.lane.ready:
                change_call(job, WITHDRAW_CALL)
                job.lane.ready.remove(job)
                removed.append(job)
                self._remove_if_empty(job.lane)
        return removed

    def note_nothing_due(self, lane: Lane) -> None:
        """Note that a lane has nothing due; called only if there are ``shares``."""

    def close(self) -> None:
        """Remove all waiting calls; no call starts any more."""
        self.is_exclusive, self.quarantined_job = True, None
        for lane in self._lanes:
            lane.ready.clear()
            self._remove_if_empty(lane)

    def _remove_if_empty(self, lane: Lane) -> None:
        if not lane.ready:
            self._lanes_with_ready[lane.is_async].pop(lane, None)

    def start_next(self, is_async: bool) -> Job | None:  # noqa: FBT001 - threads or tasks
        """Start the next call and return it; None if none can start."""
        now = time.monotonic()
        if self.running_count >= self._slots or now > self.start_deadline:
            return None
        if self.is_exclusive:
            job = self.quarantined_job
            if job is None or job.call_state is not CALL_WAITING:
                return None
            return self._start(job, now) if job.lane.is_async == is_async else None
        with_ready = self._lanes_with_ready[is_async]
        if len(with_ready) == 1:
            (lane,) = with_ready
            return self._start_first(lane, now) if len(lane.calls) < lane.limit_now else None
        lanes = [lane for lane in with_ready if len(lane.calls) < lane.limit_now]
        if not lanes:
            return None
        return self._start_first(min(lanes, key=self._order), now)

    def _order(self, lane: Lane) -> tuple[Any, ...]:
        main = lane.main
        return not lane.urgent_count, -lane.listener.priority, main.last_turn, lane.last_turn

    def _start_first(self, lane: Lane, now: float) -> Job:
        job = lane.ready.popleft()
        if lane.urgent_count:
            lane.urgent_count -= 1
        if not lane.ready:
            del self._lanes_with_ready[lane.is_async][lane]
        lane.last_turn = lane.main.last_turn = next(self._turns)
        return self._start(job, now)

    def _start(self, job: Job, now: float) -> Job:
        job.lane.calls[job] = None
        self.running_count += 1
        if self._has_reservations:
            self._update_limits()
        # A call in a child process starts when the child has received it.
        if not job.lane.listener.handlers.process:
            job.started_at = now
        change_call(job, BEGIN_CALL)
        if isinstance(job, SingleJob):
            change_message(job, BEGIN if job.expires_at > now else EXPIRE)
        else:
            for lease in job.leases:
                change_message(lease, BEGIN if lease.expires_at > now else EXPIRE)
        return job

    def finish(self, job: Job) -> None:
        """Free the slot of a call that has ended, or is abandoned."""
        change_call(job, END_CALL)
        del job.lane.calls[job]
        self.running_count -= 1
        if self._has_reservations:
            self._update_limits()
        if self.quarantined_job is job:
            self.quarantined_job = None

    def resize(self, slots: int) -> int:
        """
        Change the number of slots; the lock is held. Calls that run are not affected.

        Returns:
            The number: more if so many slots are reserved.
        """
        lanes = self._main_lanes
        needed = sum(lane.reserved for lane in lanes) + any(not lane.reserved for lane in lanes)
        self._slots = max(slots, needed)
        for lane in lanes:
            for part in lane.parts:
                part.limit = part.limit_now = min(
                    lane.listener.concurrency or self._slots, self._slots
                )
        if self._has_reservations:
            self._update_limits()
        return self._slots

    def _update_limits(self) -> None:
        lanes = self._main_lanes
        uses = [SlotUse(len(lane.calls), lane.reserved, lane.limit) for lane in lanes]
        for lane, limit in zip(lanes, compute_limits(self._slots, uses), strict=True):
            for part in lane.parts:
                part.limit_now = limit

    def abandon(self, jobs: Iterable[Job]) -> list[Job]:
        """
        Free the slots of calls whose thread or task has ended. Return the calls that had not ended.
        """
        abandoned = []
        for job in jobs:
            if job.ended_at is None and change_call(job, ABANDON_CALL):
                abandoned.append(job)
            self.finish(job)
        return abandoned

    def count_ready(self, is_async: bool | None = None) -> int:  # noqa: FBT001 - as above
        """Return how many calls wait for a slot."""
        kinds = (False, True) if is_async is None else (is_async,)
        return sum(len(lane.ready) for kind in kinds for lane in self._lanes_with_ready[kind])

    @property
    def is_full(self) -> bool:
        """Return whether no slot is free."""
        return self.running_count >= self._slots

    @property
    def has_startable(self) -> bool:
        """Return whether a call waits that can start, if no call is in quarantine."""
        return not self.is_full and any(
            len(lane.calls) < lane.limit_now
            for with_ready in self._lanes_with_ready.values()
            for lane in with_ready
        )

    def async_lanes(self) -> list[Lane]:
        """Return the lanes whose handlers run as tasks; the lock need not be held."""
        return [lane for lane in self._lanes if lane.is_async]

    def running_calls(self, is_async: bool) -> list[Job]:  # noqa: FBT001 - as above
        """Return the running calls."""
        return [
            job for lane in self._lanes if lane.is_async == is_async for job in lane.own_calls()
        ]

    def count_ready_by_priority(self) -> dict[int, int]:
        """Return how many calls wait for a slot, by priority."""
        found: dict[int, int] = {}
        for with_ready in self._lanes_with_ready.values():
            for lane in with_ready:
                priority = lane.listener.priority
                found[priority] = found.get(priority, 0) + len(lane.ready)
        return found

    def count_to_wake(self, is_async: bool, busy: int) -> int:  # noqa: FBT001 - as above
        """
        Return how many more threads or tasks should run calls, beside the busy ones.

        They are as many as are needed to start all waiting calls within TARGET_START_SECONDS. One
        thread runs very short calls faster than several that take turns.

        Args:
            is_async: whether tasks or threads are counted.
            busy: how many of them run calls now.
        """
        if self.is_exclusive:
            job = self.quarantined_job
            if job is None or job.call_state is not CALL_WAITING:
                return 0
            return int(job.lane.is_async == is_async)
        wanted = 0.0
        for lane in self._lanes_with_ready[is_async]:
            calls = min(len(lane.ready), lane.limit_now - len(lane.calls))
            if calls > 0:
                mean = lane.mean_seconds
                soon = (
                    math.inf if mean is None else 1 + len(lane.ready) * mean / TARGET_START_SECONDS
                )
                wanted += calls if soon >= calls else max(soon - busy, 0)
        return min(math.ceil(wanted - 0.5), max(self._slots - self.running_count, 0))


class SharingRunQueue(RunQueue):
    """
    A run queue whose lanes of one priority share the calls by their weights.

    Here threads and tasks leave a slot to each other if the next call is of the other kind.
    """

    def __init__(self, lanes: Sequence[Lane], slots: int, *, is_strict: bool) -> None:
        super().__init__(lanes, slots)
        self.is_strict = is_strict
        by_priority = _group_by_priority(lanes)
        self._shares: dict[Lane, Shares[Lane]] = {}
        for of_priority in by_priority.values():
            shares = Shares({lane: lane.listener.weight for lane in of_priority})
            self._shares.update(dict.fromkeys(of_priority, shares))
        self.shares = self._shares
        #: Monotonic seconds since which a slot is left to calls of the other kind; None if none is.
        self._left_since: float | None = None

    def note_nothing_due(self, lane: Lane) -> None:
        """Note that a lane has nothing due; the lock must not be held."""
        with self.lock:
            self._shares[lane].leave(lane)

    def add(self, jobs: Iterable[Job]) -> None:
        jobs = list(jobs)
        for lane in {job.lane.main for job in jobs}:
            self._shares[lane].join(lane)
        super().add(jobs)

    def start_next(self, is_async: bool) -> Job | None:  # noqa: FBT001 - threads or tasks
        kinds = self._lanes_with_ready
        if not (kinds[False] and kinds[True]) or self.is_exclusive or self.is_full:
            return super().start_next(is_async)
        lanes = [
            lane
            for kind in (is_async, not is_async)
            for lane in kinds[kind]
            if len(lane.calls) < lane.limit_now
        ]
        if lanes and min(lanes, key=self._order).is_async != is_async:
            now = time.monotonic()
            self._left_since = now if self._left_since is None else self._left_since
            if now - self._left_since < _MAX_LEFT_SECONDS:
                self.executors[not is_async].wake(1)
                return None
        else:
            self._left_since = None
        job = super().start_next(is_async)
        if job is not None and not self.is_full:  # those that have left the slot sleep
            for executor in self.executors.values():
                executor.wake(0)
        return job

    def _order(self, lane: Lane) -> tuple[Any, ...]:
        return (
            not lane.urgent_count,
            -lane.listener.priority,
            self._shares[lane.main].turn(lane.main),
            lane.last_turn,
        )

    def _start_first(self, lane: Lane, now: float) -> Job:
        self._shares[lane.main].begin(lane.main)
        return super()._start_first(lane, now)


def make_run_queue(lanes: Sequence[Lane], slots: int, *, is_strict: bool = False) -> RunQueue:
    """
    Return an empty run queue, which shares the calls if that makes a difference.

    Args:
        lanes: the listeners.
        slots: maximum number of concurrent calls.
        is_strict: whether a lower priority gets no call while a higher one has due messages.
    """
    groups = _group_by_priority(lanes).values()
    if is_strict or any(len({lane.listener.weight for lane in each}) > 1 for each in groups):
        return SharingRunQueue(lanes, slots, is_strict=is_strict)
    return RunQueue(lanes, slots)


def _group_by_priority(lanes: Iterable[Lane]) -> dict[int, list[Lane]]:
    groups: dict[int, list[Lane]] = {}
    for lane in lanes:
        groups.setdefault(lane.listener.priority, []).append(lane)
    return groups
