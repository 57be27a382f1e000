"""
Threads that call plain handlers: as many as are needed, at most one for each slot.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from rsmq.errors.guarded_log import get_logger
from rsmq.worker.failure import summarize
from rsmq.worker.run.executor import ExecutorEnd, Stall
from rsmq.worker.run.invoke import Invoker
from rsmq.worker.run.run_queue import RunQueue
from rsmq.worker.state.calls import Job
from rsmq.worker.state.error_reader import read_error
from rsmq.worker.state.message_state import CALL_ABANDONED

_log = get_logger("rsmq.worker")

#: The pause after the system has refused a thread.
_RETRY_SECONDS = 1.0
#: For how long there may be no thread before the worker ends.
_MAX_STALL_SECONDS = 60.0
#: At most so many seconds count between two checks: the process may have been suspended.
_MAX_STEP_SECONDS = 2.0
_REMEDY = "Raise the limit of its processes or threads (pids.max, ulimit -u), or use fewer slots"


class Threads:
    """
    Runs the calls of plain handlers in a run queue.

    Attributes:
        hung_count: number of threads that still run abandoned calls.
        end, stall: see ``Executor``.
    """

    def __init__(
        self,
        run_queue: RunQueue,
        invoker: Invoker,
        report_idle: Callable[[], object],
        max_threads: int,
    ) -> None:
        """
        Make it; no thread starts before there is a call to run.

        Args:
            report_idle: called when a thread has nothing to run.
            max_threads: maximum number of threads.
        """
        self._run_queue = run_queue
        self._invoker = invoker
        self._report_idle = report_idle
        self.max_calls = max_threads
        self._work = threading.Condition(run_queue.lock)
        self._idle_count = 0
        self._alive_count = 0
        self.hung_count = 0
        self.end: ExecutorEnd | None = None
        self.stall: Stall | None = None
        self._refusal = ""  # why the system has refused the last thread; '' if it has not
        self._retry_at = 0.0
        self._stalled_seconds = self._checked_at = 0.0
        self._number = 0
        self._is_stopped = False

    def wake(self, minimum: int) -> None:
        """Wake threads or start new ones, at least ``minimum``; the run queue's lock is held."""
        busy = self._alive_count - self._idle_count
        wanted = max(self._run_queue.count_to_wake(False, busy), minimum)
        asleep = min(wanted, self._idle_count)
        if asleep:
            self._work.notify(asleep)
        for _ in range(min(wanted - asleep, self.max_calls - self._alive_count)):
            if not self._start_thread():
                return

    def _start_thread(self) -> bool:
        """Start a thread. Return whether the system allows it; the run queue's lock is held."""
        now = time.monotonic()
        if now < self._retry_at:
            return False
        self._alive_count += 1
        self._number += 1
        thread = threading.Thread(
            target=self._run, name=f"rsmq-handler-{self._number}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:  # the existing ones continue
            self._alive_count -= 1
            self._retry_at = now + _RETRY_SECONDS
            if not self._refusal:
                _log.error("no thread for handlers more than %d: %s", self._alive_count, error)
            self._refusal = str(error)
            return False
        self._refusal = ""
        return True

    def replace_hung(self) -> None:
        """Count the thread of an abandoned call as hung; the run queue's lock is held."""
        self._alive_count -= 1
        self.hung_count += 1

    def interrupt(self) -> bool:
        """See ``Executor``. Threads can't be interrupted."""
        return False

    def stop(self) -> None:
        """End idle threads now, and the others when their calls have ended."""
        with self._run_queue.lock:
            self._is_stopped = True
            self._work.notify_all()

    def check(self, now: float) -> None:
        """See ``Executor``. Its threads notice their end."""
        step, self._checked_at = min(now - self._checked_at, _MAX_STEP_SECONDS), now
        if not self._refusal:
            self.stall = None
            return
        with self._run_queue.lock:
            if self._is_stopped:
                return
            if self._alive_count or self._start_thread():
                self.stall, self._stalled_seconds = None, 0.0
                return
            self._stalled_seconds += step
            self.stall = Stall(
                f"The system allows no thread for handlers ({self._refusal})",
                _REMEDY,
                self._stalled_seconds,
                _MAX_STALL_SECONDS,
            )
            if self.stall.is_over:
                self.end = self.end or ExecutorEnd(self.stall.cause, stall=self.stall)

    def _run(self) -> None:
        run_queue = self._run_queue
        job: Job | None = None
        try:
            while True:
                with run_queue.lock:
                    if job is not None:
                        if job.call_state is CALL_ABANDONED:  # another thread replaces this one
                            self.hung_count -= 1
                            return
                        run_queue.finish(job)
                    job = run_queue.start_next(False)
                    while job is None:
                        if self._is_stopped:
                            self._alive_count -= 1
                            return
                        self._idle_count += 1
                        self._report_idle()
                        self._work.wait()
                        self._idle_count -= 1
                        job = run_queue.start_next(False)
                self._invoker.call(job)
        except BaseException as error:  # noqa: BLE001 - such as one that another thread sends here
            self._note_end(error, job)

    def _note_end(self, error: BaseException, job: Job | None) -> None:
        cause = f"A thread of its handlers has ended by {summarize(read_error(error))}"
        with self._run_queue.lock:
            self._alive_count -= 1
            self.end = self.end or ExecutorEnd(cause)
            if job is not None and job in job.lane.calls:
                self.end.jobs += self._run_queue.abandon([job])
        self._report_idle()
