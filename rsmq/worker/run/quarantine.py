"""
Quarantine: suspected poison messages run alone.

While such a message runs, no other call starts, and only calls that take long are still running.
So a message that crashes its worker repeatedly is identified, and the messages that were in flight
with it are not suspected. If its call runs for EXCLUSIVE_SECONDS, the others continue beside it, so
that a long call does not stop all queues. A call in a child process can't crash the worker, so it
does not run alone.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping
from functools import partial

from redis.exceptions import ResponseError

from rsmq.errors.guarded_log import get_logger
from rsmq.errors.printable import format_count
from rsmq.transport.retry import is_limited_to_keys
from rsmq.worker.connection import WorkerConnection
from rsmq.worker.operations import record_quarantine_run
from rsmq.worker.outcome import TookItsProcessDown
from rsmq.worker.run.executor import Executor
from rsmq.worker.run.run_queue import TARGET_START_SECONDS, RunQueue
from rsmq.worker.settle.settler import Settler
from rsmq.worker.state.calls import Job
from rsmq.worker.state.error_reader import read_error
from rsmq.worker.state.lane import Lane
from rsmq.worker.state.message_state import CALL_WAITING, READY, WITHDRAW_CALL, change_call

_log = get_logger("rsmq.worker")

#: Runs in quarantine without a known outcome, after which a message fails for the last time.
MAX_RUNS = 3
#: How long a call runs alone. After that, other calls start for so long before the next one.
EXCLUSIVE_SECONDS = 5.0
#: How long a call waits for other calls to end. Then it starts if a slot is free.
_MAX_WAIT_SECONDS = 2.0
_LATE_POLL_SECONDS = 0.05
#: The text about runs without a known outcome.
_UNKNOWN_END = (
    "in each run its worker died, or could not extend the visibility timeout, as while a handler "
    "keeps the GIL"
)


class Quarantine:
    """The calls that are to be made in quarantine, in order."""

    def __init__(self, connection: WorkerConnection, run_queue: RunQueue, settler: Settler) -> None:
        self._connection = connection
        self._run_queue = run_queue
        self._settler = settler
        self._jobs: deque[Job] = deque()
        self._child_jobs: deque[Job] = deque()
        self._exclusive_since = 0.0
        self._next_at = 0.0  # monotonic seconds before which none starts

    def __bool__(self) -> bool:
        return bool(self._jobs or self._child_jobs)

    def add(self, jobs: Iterable[Job]) -> None:
        """Add calls."""
        for job in jobs:
            (self._child_jobs if job.lane.listener.process else self._jobs).append(job)

    def run_next(self, executors: Mapping[bool, Executor]) -> bool:
        """
        Start the next call if possible. Return whether calls are left: then no other call may
        start.
        """
        run_queue = self._run_queue
        self._end_exclusivity(executors)
        self._start_in_children(executors)
        while self._jobs and time.monotonic() >= self._next_at:
            if not self._put_startable_first():
                break  # until a call of its listener ends, all others may run
            job = self._jobs[0]
            lane, lease = job.lane, job.leases[0]
            with run_queue.lock:
                if not run_queue.is_exclusive:
                    run_queue.is_exclusive, self._exclusive_since = True, time.monotonic()
                if run_queue.quarantined_job is not None:
                    return True  # it is about to start, or running
                if run_queue.running_count and (run_queue.is_full or not self._is_late):
                    return True  # other calls have to end first
            if job.call_state is not CALL_WAITING or lease.state is not READY:
                self._jobs.popleft()
                continue
            if self._may_run(job):
                with run_queue.lock:
                    run_queue.quarantined_job = job
                    executors[lane.is_async].wake(0)
                return True
            self._jobs.popleft()
        with run_queue.lock:
            run_queue.is_exclusive = False
            for executor in executors.values():
                executor.wake(0)
        return False

    def _put_startable_first(self) -> bool:
        """
        Let a call be the next whose listener may make one more. Return whether there is one.
        """
        with self._run_queue.lock:
            if self._run_queue.quarantined_job is not None:  # it is the first, and starts or runs
                return True
            for _ in range(len(self._jobs)):
                lane = self._jobs[0].lane
                if len(lane.calls) < lane.limit:
                    return True
                self._jobs.rotate(-1)
        return False

    def _may_run(self, job: Job) -> bool:
        """Record that a call is about to start; or settle its message as failed, by its record."""
        lane, lease = job.lane, job.leases[0]
        earlier_runs = self._connection.attempt(partial(self._record_run, job))
        if earlier_runs is None:  # another worker, or this one later, receives it again
            self._withdraw([job])
            return False
        if earlier_runs < MAX_RUNS:
            _log.warning(
                "%s %s: received %d times without being deleted: runs in quarantine, %d of %d",
                lane.name, lease.id, lease.count, earlier_runs + 1, MAX_RUNS,
            )  # fmt: skip
            return True
        error = TookItsProcessDown(
            f"received {lease.count} times, and begun {format_count(earlier_runs, 'time')} in "
            f"quarantine; {_UNKNOWN_END}"
        )
        failure = read_error(error, lane.policy)
        self._settler.decide_failure(lane, lease, failure)
        return False

    def _start_in_children(self, executors: Mapping[bool, Executor]) -> None:
        """Start the calls that child processes make, as far as slots are free."""
        for job in [job for job in self._child_jobs if job.call_state is not CALL_WAITING]:
            self._child_jobs.remove(job)
        for job in list(self._child_jobs):
            lane = job.lane
            with self._run_queue.lock:
                if self._run_queue.is_full or len(lane.calls) + len(lane.ready) >= lane.limit:
                    continue
            self._child_jobs.remove(job)
            if job.leases[0].state is READY and self._may_run(job):
                with self._run_queue.lock:
                    self._run_queue.add([job])
                    executors[False].wake(0)

    def _end_exclusivity(self, executors: Mapping[bool, Executor]) -> None:
        """Let other calls start beside a call that has run alone for EXCLUSIVE_SECONDS."""
        run_queue, now = self._run_queue, time.monotonic()
        with run_queue.lock:
            job = run_queue.quarantined_job
            if job is None or job.started_at is None or now - job.started_at < EXCLUSIVE_SECONDS:
                return
            run_queue.quarantined_job, run_queue.is_exclusive = None, False
            for executor in executors.values():
                executor.wake(0)
        self._jobs.remove(job)
        self._next_at = now + EXCLUSIVE_SECONDS

    @property
    def _is_late(self) -> bool:
        return time.monotonic() - self._exclusive_since > _MAX_WAIT_SECONDS

    def poll_seconds(self, now: float) -> float:
        """
        Return the seconds until ``run_next`` is to be called again.

        Args:
            now: monotonic seconds.
        """
        job = self._run_queue.quarantined_job
        if job is not None and job.started_at is not None:
            return job.started_at + EXCLUSIVE_SECONDS - now
        if now < self._next_at:
            return self._next_at - now
        return _LATE_POLL_SECONDS if self._is_late else TARGET_START_SECONDS

    def _record_run(self, job: Job) -> int:
        """
        Record that a call is about to start. Return its earlier runs whose outcome is unknown.
        """
        lane, lease = job.lane, job.leases[0]
        try:
            operation = record_quarantine_run(lane.keys, lease.id, lease.count)
            return self._connection.run(operation)
        except ResponseError as error:
            if not is_limited_to_keys(error):
                raise
            _log.error("%s: the run in quarantine can't be recorded: %s", lane.name, error)
            return 0

    def release_waiting(self) -> None:
        """Release the messages of calls that have not started."""
        waiting = [*self._jobs, *self._child_jobs]
        self._jobs.clear()
        self._child_jobs.clear()
        self._withdraw(waiting)

    def release_of(self, lane: Lane) -> None:
        """Release the messages of the calls of a lane that have not started."""
        self._withdraw([job for job in (*self._jobs, *self._child_jobs) if job.lane.main is lane])

    def release_unstarted(self) -> None:
        """
        Release the messages of calls that have not started.

        ``run_next`` is called again later: it forgets these calls, and lets others start.
        """
        self._withdraw([*self._jobs, *self._child_jobs])

    def _withdraw(self, jobs: Iterable[Job]) -> None:
        with self._run_queue.lock:
            withdrawn = [job for job in jobs if change_call(job, WITHDRAW_CALL)]
            if self._run_queue.quarantined_job in withdrawn:
                self._run_queue.quarantined_job = None
        for job in withdrawn:
            self._settler.release(job.lane, job.leases)
