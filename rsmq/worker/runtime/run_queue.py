"""
The run queue: received messages that wait for a slot.

Lanes of a higher priority go first, and those of one priority by turns, within the limits of each.
A call that must be made alone is made when all others have ended, and no other begins before it has
ended too.
"""

from __future__ import annotations

import itertools
import math
import operator
import threading
import time
from collections.abc import Iterable, Sequence

from rsmq.worker.runtime.message_state import Job, Lane

_lane_of = operator.attrgetter("lane")

#: Seconds within which the calls that are ready should have begun.
SOON = 0.001


class RunQueue:
    """
    The calls to be made, and those under way.

    Attributes:
        lock: to be held by all who use anything in here.
        running: calls under way.
        alone: the call that is made alone; None if none is.
        shut: whether no other call may begin.
        until: when this worker may be dead for others, monotonic seconds: then no call begins.
    """

    def __init__(self, lanes: Sequence[Lane], slots: int) -> None:
        """
        Make an empty one.

        Args:
            lanes: the listeners at work.
            slots: calls at once at most.
        """
        self.lock = threading.Lock()
        self.running = 0
        self.alone: Job | None = None
        self.shut = False
        self.until = math.inf
        self._slots = slots
        self._lanes = lanes
        #: Of tasks (True) and of threads the lanes that have calls to be made.
        self._filled: dict[bool, dict[Lane, None]] = {False: {}, True: {}}
        self._turns = itertools.count(1)

    def add(self, jobs: Iterable[Job]) -> None:
        """Calls to be made."""
        for lane, of_lane in itertools.groupby(jobs, _lane_of):
            if not lane.ready:
                self._filled[lane.is_async][lane] = None
            before = len(lane.ready)
            lane.ready.extend(of_lane)
            if lane.ready[before].urgent:  # these come first, if there are any
                lane.urgent += sum(job.urgent for job in itertools.islice(lane.ready, before, None))

    def take_back(self, jobs: Iterable[Job]) -> list[Job]:
        """Those of these calls that have not begun: they will not be made."""
        back = []
        for job in jobs:
            if job.began is None and job in job.lane.ready:
                job.lane.ready.remove(job)
                back.append(job)
                self._empty(job.lane)
        return back

    def close(self) -> None:
        """No call will be made any more."""
        self.shut, self.alone = True, None
        for lane in self._lanes:
            lane.ready.clear()
            self._empty(lane)

    def _empty(self, lane: Lane) -> None:
        if not lane.ready:
            self._filled[lane.is_async].pop(lane, None)

    def next(self, is_async: bool) -> Job | None:  # noqa: FBT001 - threads or tasks
        """The next call, which begins now; None if there is none to be made."""
        now = time.monotonic()
        if self.running >= self._slots or now > self.until:
            return None
        if self.shut:
            job = self.alone
            if job is None or job.began is not None:
                return None
            return self._begin(job, now) if job.lane.is_async == is_async else None
        filled = self._filled[is_async]
        if len(filled) == 1:
            (lane,) = filled
            return self._first_of(lane, now) if len(lane.calls) < lane.limit else None
        lanes = [lane for lane in filled if len(lane.calls) < lane.limit]
        if not lanes:
            return None
        return self._first_of(
            min(lanes, key=lambda lane: (not lane.urgent, -lane.listener.priority, lane.turn)), now
        )

    def _first_of(self, lane: Lane, now: float) -> Job:
        job = lane.ready.popleft()
        if lane.urgent:
            lane.urgent -= 1
        if not lane.ready:
            del self._filled[lane.is_async][lane]
        lane.turn = next(self._turns)
        return self._begin(job, now)

    def _begin(self, job: Job, now: float) -> Job:
        job.lane.calls[job] = None
        self.running += 1
        job.began = now
        return job

    def end(self, job: Job) -> None:
        """A call has ended, or nobody waits for it any more."""
        del job.lane.calls[job]
        self.running -= 1
        if self.alone is job:
            self.alone = None

    def ready(self, is_async: bool | None = None) -> int:  # noqa: FBT001 - as above
        """How many calls are to be made."""
        kinds = (False, True) if is_async is None else (is_async,)
        return sum(len(lane.ready) for kind in kinds for lane in self._filled[kind])

    @property
    def full(self) -> bool:
        """Whether no call more can begin."""
        return self.running >= self._slots

    def calls(self, is_async: bool) -> list[Job]:  # noqa: FBT001 - as above
        """The calls that are under way."""
        return [job for lane in self._lanes if lane.is_async == is_async for job in lane.calls]

    def ready_by_priority(self) -> dict[int, int]:
        """How many calls are to be made, by their priorities."""
        found: dict[int, int] = {}
        for filled in self._filled.values():
            for lane in filled:
                priority = lane.listener.priority
                found[priority] = found.get(priority, 0) + len(lane.ready)
        return found

    def worth_waking(self, is_async: bool, busy: int) -> int:  # noqa: FBT001 - as above
        """
        How many more should make calls, beside those who are busy with it.

        As many as it takes to begin all that are ready soon: of very short calls one thread makes
        more by itself than several that take turns.
        """
        if self.shut:
            job = self.alone
            if job is None or job.began is not None:
                return 0
            return int(job.lane.is_async == is_async)
        wanted = 0.0
        for lane in self._filled[is_async]:
            calls = min(len(lane.ready), lane.limit - len(lane.calls))
            if calls > 0:
                mean = lane.mean
                soon = math.inf if mean is None else 1 + len(lane.ready) * mean / SOON
                wanted += calls if soon >= calls else max(soon - busy, 0)
        return min(math.ceil(wanted - 0.5), max(self._slots - self.running, 0))
