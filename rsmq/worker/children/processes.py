"""
The child processes of a worker, which make the calls of listeners with ``process=True``.

A thread of the worker waits for each call. So a call that fails, hangs or crashes its process
affects only its own messages.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from rsmq.errors import InvalidFormat
from rsmq.errors.guarded_log import get_logger
from rsmq.transport.backoff import exponential_seconds, with_jitter
from rsmq.worker.children.child_process import CallNotSent, Child, ChildNotStarted, ChildSettings
from rsmq.worker.children.process_starter import ProcessStarter
from rsmq.worker.outcome import HandlerProcessDied
from rsmq.worker.run.invoke import Invoker, reject_cancelled
from rsmq.worker.run.run_queue import RunQueue
from rsmq.worker.run.threads import Threads
from rsmq.worker.state.calls import Job

_log = get_logger("rsmq.worker")

#: How many child processes may fail to receive a call, before the call fails.
_MAX_UNSENT = 2
_MAX_START_PAUSE_SECONDS = 30.0
#: How long a call waits for a child process before it checks again whether enough are starting.
_MAX_WAIT_SECONDS = 1.0


class ChildProcesses:
    """The child processes of a worker: one for each call at a time, kept for later calls."""

    def __init__(self, settings: ChildSettings) -> None:
        self._settings = settings
        #: Notified when a child becomes idle, and at the end.
        self._changed = threading.Condition()
        self._idle: list[Child] = []
        self._all: set[Child] = set()
        self._waiting_count = self._starting_count = 0
        self._start_lock = threading.Lock()
        self._is_started = False
        self._is_refused = False  # whether the system has refused the last thread
        self._closed = threading.Event()
        self._starter = ProcessStarter()

    def start(self) -> None:
        """
        Start the first child process, unless that was done; the first call does it too.

        Raises:
            InvalidFormat: it can't import the worker.
            OSError: the system can't start a process.
        """
        with self._start_lock:
            if not self._is_started:
                self._start_first()
                self._is_started = True

    def _start_first(self) -> None:
        try:
            self._put_back(self._start_child())
        except ChildNotStarted as error:
            self.close()
            raise InvalidFormat(
                "process",
                value=self._settings.app,
                hint=f"A child process can't start: {error}",
            ) from None
        except BaseException:
            self.close()
            raise

    def _start_child(self) -> Child:
        child = Child(self._settings, self._starter.start_process)
        with self._changed:
            self._all.add(child)
            if self._closed.is_set():
                child.interrupt()
        try:
            child.wait_until_ready()
        except BaseException:
            child.kill()
            with self._changed:
                self._all.discard(child)
            raise
        return child

    def call(self, job: Job, handler: str | None = None) -> None:
        """
        Call the handler of a job in a child process; wait for its end.

        Args:
            handler: the name of the handler, if there are several.

        Raises:
            The error of the call.
        """
        if not self._is_started:
            self.start()
        unsent_count = 0
        while True:
            child = self._take()
            try:
                reject_cancelled(job)  # it may have waited for the child
                child.call(job, handler)
            except CallNotSent as error:
                unsent_count += 1
                if unsent_count == _MAX_UNSENT:
                    raise HandlerProcessDied(str(error)) from None
                _log.warning("another child process makes a call again: %s", error)
            else:
                return
            finally:
                self._put_back(child)

    def _put_back(self, child: Child) -> None:
        with self._changed:
            is_over = child.has_ended or self._closed.is_set()
            if is_over:
                self._all.discard(child)
            else:
                self._idle.append(child)
                self._changed.notify()
        if is_over:
            child.kill()

    def _take(self) -> Child:
        """Return an idle child; wait for one, and start one for each call that waits."""
        with self._changed:
            self._waiting_count += 1
            try:
                while (child := self._pop_idle()) is None:
                    if self._starting_count < self._waiting_count:
                        self._start_to_add_child()
                    self._changed.wait(_MAX_WAIT_SECONDS)
            finally:
                self._waiting_count -= 1
        return child

    def _pop_idle(self) -> Child | None:
        if self._closed.is_set():
            raise HandlerProcessDied("the worker stops")
        while self._idle:
            child = self._idle.pop()
            if not child.has_ended:
                return child
            self._all.discard(child)
            child.kill()
        return None

    def _start_to_add_child(self) -> None:
        thread = threading.Thread(target=self._add_child, name="rsmq-child-start", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system allows no more threads: try it again later
            if not self._is_refused:  # each call that waits tries it once a second
                _log.error("no child process starts: %s", error)
            self._is_refused = True
        else:
            self._is_refused = False
            self._starting_count += 1

    def _add_child(self) -> None:
        """Start an idle child; try it again while calls wait for one."""
        failures = 0
        while True:
            child = None
            try:
                child = self._start_child()
            except BaseException as error:  # noqa: BLE001 - calls wait for the next try
                failures += 1
                if not self._closed.is_set():
                    _log.error("no child process starts: %s", error)
                pause = exponential_seconds(failures, 1.0, _MAX_START_PAUSE_SECONDS)
                self._closed.wait(with_jitter(pause))
            with self._changed:
                if child is None and self._waiting_count and not self._closed.is_set():
                    continue
                self._starting_count -= 1
                if child is not None:
                    self._put_back(child)
            return

    def interrupt(self) -> bool:
        """Interrupt the running calls, because the worker stops. Return whether there are any."""
        with self._changed:
            busy = self._all.difference(self._idle)
        for child in busy:
            child.interrupted_at = time.monotonic()
        return bool(busy)

    def close(self) -> None:
        """End the child processes. Those that run a call, or are starting, are killed."""
        with self._changed:
            self._closed.set()
            self._changed.notify_all()
            idle, self._idle = self._idle, []
            busy = self._all.difference(idle)
            self._all.clear()
        for child in busy:
            child.interrupt()
        for child in idle:
            child.request_end()
        for child in idle:
            child.end()
        self._starter.stop()


class ThreadsWithChildren(Threads):
    """Threads of which some wait for calls in child processes."""

    def __init__(
        self,
        run_queue: RunQueue,
        invoker: Invoker,
        report_idle: Callable[[], object],
        max_threads: int,
        children: ChildProcesses,
    ) -> None:
        """Make it; see ``Threads``."""
        super().__init__(run_queue, invoker, report_idle, max_threads)
        self._children = children

    def interrupt(self) -> bool:
        """See ``Executor``."""
        return self._children.interrupt()

    def stop(self) -> None:
        """End idle threads now, the child processes, and then the other threads."""
        super().stop()
        self._children.close()
