"""
Threads that call plain handlers: as many as are needed, at most one for each slot.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from rsmq.guarded_log import get_logger
from rsmq.worker.run.executor import ExecutorEnd
from rsmq.worker.run.invoke import Invoker
from rsmq.worker.run.run_queue import RunQueue
from rsmq.worker.state.error_reader import read_error
from rsmq.worker.state.failure import summarize
from rsmq.worker.state.lane import Job
from rsmq.worker.state.message_state import CALL_ABANDONED

_log = get_logger("rsmq.worker")


class Threads:
    """
    Runs the calls of plain handlers in a run queue.

    Attributes:
        hung_count: number of threads that still run abandoned calls.
        end: see ``Executor``.
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
        self._max_threads = max_threads
        self._work = threading.Condition(run_queue.lock)
        self._idle_count = 0
        self._alive_count = 0
        self.hung_count = 0
        self.end: ExecutorEnd | None = None
        self._number = 0
        self._is_stopped = False

    def wake(self, minimum: int) -> None:
        """Wake threads or start new ones, at least ``minimum``; the run queue's lock is held."""
        busy = self._alive_count - self._idle_count
        wanted = max(self._run_queue.count_to_wake(False, busy), minimum)
        asleep = min(wanted, self._idle_count)
        if asleep:
            self._work.notify(asleep)
        for _ in range(min(wanted - asleep, self._max_threads - self._alive_count)):
            self._alive_count += 1
            self._number += 1
            thread = threading.Thread(
                target=self._run, name=f"rsmq-handler-{self._number}", daemon=True
            )
            try:
                thread.start()
            except (
                RuntimeError
            ) as error:  # the system allows no more threads: the existing ones continue
                self._alive_count -= 1
                _log.error("no thread more than %d: %s", self._alive_count, error)
                return

    def replace_hung(self) -> None:
        """Count the thread of an abandoned call as hung; the run queue's lock is held."""
        self._alive_count -= 1
        self.hung_count += 1

    def stop(self) -> None:
        """End idle threads now, and the others when their calls have ended."""
        with self._run_queue.lock:
            self._is_stopped = True
            self._work.notify_all()

    def check(self) -> None:
        """See ``Executor``: its threads notice their end."""

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
