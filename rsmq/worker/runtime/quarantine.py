"""
Quarantine: suspected poison messages run alone.

Each is handled with nothing beside it, but calls that run for long. So one that takes its process
down, again and again, is known by that, and its neighbours are not taken for it.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping

from redis.exceptions import ResponseError

from rsmq.client import RSMQ
from rsmq.operations.worker import begin_alone
from rsmq.transport.retry import is_limited_to_keys
from rsmq.worker.outcome import TookItsProcessDown
from rsmq.worker.runtime.executor import Executor
from rsmq.worker.runtime.message_state import Job
from rsmq.worker.runtime.run_queue import SOON, RunQueue
from rsmq.worker.runtime.settle import Settler, forget

_log = logging.getLogger("rsmq.worker")

#: How often a message may be handled with nothing beside it without an end, before it is given up.
TIMES = 3
#: Seconds for which one waits for other calls; then it begins all the same.
_WAITS = 2.0
_LATE = 0.05


class Quarantine:
    """The calls that are to be made alone, in order."""

    def __init__(self, rsmq: RSMQ, run_queue: RunQueue, settler: Settler) -> None:
        self._rsmq = rsmq
        self._run_queue = run_queue
        self._settler = settler
        self._jobs: deque[Job] = deque()
        self._shut_at = 0.0

    def __bool__(self) -> bool:
        return bool(self._jobs)

    @property
    def under_way(self) -> bool:
        """Whether one of them is being handled."""
        job = self._run_queue.alone
        return job is not None and job.began is not None

    def add(self, jobs: Iterable[Job]) -> None:
        """Calls to be made."""
        self._jobs.extend(jobs)

    def begin(self, executors: Mapping[bool, Executor]) -> bool:
        """See to them; True while there are some, and nothing else may begin."""
        run_queue = self._run_queue
        while self._jobs:
            job = self._jobs[0]
            lane, lease = job.lane, job.leases[0]
            with run_queue.lock:
                if not run_queue.shut:
                    run_queue.shut, self._shut_at = True, time.monotonic()
                if run_queue.alone is not None:
                    return True  # it is about to begin, or under way
                if run_queue.running and (run_queue.full or not self._late):
                    return True  # others end
            if job.began is not None or lease.lost:
                self._jobs.popleft()
                continue
            before = self._noted(job)
            if before < TIMES:
                _log.warning(
                    "%s %s: received %d times and never ended: handled alone, %d of %d",
                    lane.name, lease.id, lease.count, before + 1, TIMES,
                )  # fmt: skip
                with run_queue.lock:
                    run_queue.alone = job
                    executors[lane.is_async].wake(0)
                return True
            self._jobs.popleft()
            error = TookItsProcessDown(
                f"received {lease.count} times, and begun {before} times with nothing beside it; "
                "its handler never ended"
            )
            self._settler.failed(lane, lease, error)
            self._settler.write()
        with run_queue.lock:
            run_queue.shut = False
            for executor in executors.values():
                executor.wake(0)
        return False

    @property
    def _late(self) -> bool:
        return time.monotonic() - self._shut_at > _WAITS

    @property
    def pause(self) -> float:
        """How long to sleep until they are seen to again, while none is under way."""
        return _LATE if self._late else SOON

    def _noted(self, job: Job) -> int:
        """How often it was begun so before; it is noted that it is now."""
        keys, lease = job.lane.keys, job.leases[0]
        try:
            return self._rsmq.run(begin_alone(keys, lease.id, lease.count))
        except ResponseError as error:
            if not is_limited_to_keys(error):
                raise
            _log.error("%s: who is handled alone can't be noted: %s", keys.name, error)
            return 0

    def give_back(self) -> None:
        """Release those that have not begun."""
        with self._run_queue.lock:
            for job in self._jobs:
                if job.began is None:
                    self._settler.release(job.lane, job.leases)
                    for lease in job.leases:
                        forget(job.lane, lease)
                    if self._run_queue.alone is job:
                        self._run_queue.alone = None
            self._jobs.clear()
