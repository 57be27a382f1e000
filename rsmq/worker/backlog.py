"""
Which call is made next. Whoever uses it holds its lock; no I/O, no threads of its own.

Lanes of a higher priority go first, within the limits of each. A call that must be made alone is
made when all others have ended, and no other begins before it has ended too.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence

from rsmq.worker.lane import Lane
from rsmq.worker.lease import Job

#: Seconds after which a call that is ready goes before those of a higher priority.
OVERDUE = 1.0


class Backlog:
    """
    The calls to be made, and those under way.

    Attributes:
        lock: to be held by all who use anything in here.
        running: calls under way.
        alone: the call that is made alone; None if none is.
        shut: whether no other call may begin.
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
        self._slots = slots
        by_priority = sorted(lanes, key=lambda lane: -lane.listener.priority)
        self._lanes = {
            is_async: [lane for lane in by_priority if lane.listener.handlers.is_async is is_async]
            for is_async in (False, True)
        }
        self._all = by_priority

    def next(self, is_async: bool) -> Job | None:  # noqa: FBT001 - threads or tasks
        """The next call, which begins now; None if there is none to be made."""
        if self.running >= self._slots:
            return None
        if self.shut:
            job = self.alone
            if (
                job is None
                or job.began is not None
                or job.lane.listener.handlers.is_async != is_async
            ):
                return None
            return self._begin(job)
        lanes = self._lanes[is_async]
        if len(lanes) > 1:
            lanes = self._overdue_first(lanes)
        for lane in lanes:
            if lane.ready and lane.running < lane.limit:
                return self._begin(lane.ready.popleft())
        return None

    def _begin(self, job: Job) -> Job:
        job.lane.running += 1
        self.running += 1
        job.began = time.monotonic()
        return job

    def _overdue_first(self, lanes: list[Lane]) -> list[Lane]:
        since = time.monotonic() - OVERDUE
        late = [lane for lane in lanes if lane.ready and lane.ready[0].taken < since]
        return late + lanes if late else lanes

    def end(self, job: Job) -> None:
        """A call has ended, or nobody waits for it any more."""
        job.lane.running -= 1
        self.running -= 1
        if self.alone is job:
            self.alone = None

    def ready(self, is_async: bool | None = None) -> int:  # noqa: FBT001 - as above
        """How many calls are to be made."""
        lanes = self._all if is_async is None else self._lanes[is_async]
        return sum(len(lane.ready) for lane in lanes)

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
            return int(job.lane.listener.handlers.is_async == is_async)
        wanted = 0.0
        for lane in self._lanes[is_async]:
            calls = min(len(lane.ready), lane.limit - lane.running)
            if calls > 0:
                mean = lane.mean
                soon = math.inf if mean is None else 1 + len(lane.ready) * mean / SOON
                wanted += calls if soon >= calls else max(soon - busy, 0)
        return min(int(wanted), max(self._slots - self.running, 0))


#: Seconds within which the calls that are ready should have begun.
SOON = 0.001
