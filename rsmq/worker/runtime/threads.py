"""
Threads that call plain handlers: as many as are needed, at most one for each slot.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from rsmq.worker.runtime.invoke import Invoker
from rsmq.worker.runtime.message_state import Job
from rsmq.worker.runtime.run_queue import RunQueue

_log = logging.getLogger("rsmq.worker")


class Threads:
    """Makes the calls of plain functions in a run queue."""

    def __init__(
        self, run_queue: RunQueue, invoker: Invoker, idle: Callable[[], object], most: int
    ) -> None:
        """
        Make it; no thread begins before there is a call to be made.

        Args:
            run_queue: where the calls are.
            invoker: makes a call.
            idle: told when a thread has nothing to do.
            most: threads at most.
        """
        self._run_queue = run_queue
        self._invoker = invoker
        self._on_idle = idle
        self._most = most
        self._work = threading.Condition(run_queue.lock)
        self._idle = 0
        self._alive = 0
        self._number = 0
        self._stopped = False

    def wake(self, at_least: int) -> None:
        """There are calls to be made, by so many more at least; the run queue's lock is held."""
        busy = self._alive - self._idle
        wanted = max(self._run_queue.worth_waking(False, busy), at_least)
        asleep = min(wanted, self._idle)
        if asleep:
            self._work.notify(asleep)
        for _ in range(min(wanted - asleep, self._most - self._alive)):
            self._alive += 1
            self._number += 1
            thread = threading.Thread(
                target=self._run, name=f"rsmq-handler-{self._number}", daemon=True
            )
            try:
                thread.start()
            except RuntimeError as error:  # the system has no more: those that there are go on
                self._alive -= 1
                _log.error("no thread more than %d: %s", self._alive, error)
                return

    def forget(self) -> None:
        """Of a call that hangs: its thread counts no more. The run queue's lock is held."""
        self._alive -= 1

    def stop(self) -> None:
        """End those that are idle, and the others when their calls have ended."""
        with self._run_queue.lock:
            self._stopped = True
            self._work.notify_all()

    def _run(self) -> None:
        run_queue = self._run_queue
        job: Job | None = None
        while True:
            with run_queue.lock:
                if job is not None:
                    if job.let_go:  # another has taken this thread's place
                        return
                    run_queue.end(job)
                job = run_queue.next(False)
                while job is None:
                    if self._stopped:
                        self._alive -= 1
                        return
                    self._idle += 1
                    self._on_idle()
                    self._work.wait()
                    self._idle -= 1
                    job = run_queue.next(False)
            self._invoker.call(job)
