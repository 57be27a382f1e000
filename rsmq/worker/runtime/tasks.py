"""
Tasks that await async handlers, on the worker's own event loop or a running one.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

from rsmq.transport.watched_loops import unwatch_loop, watch_loop
from rsmq.worker.runtime.invoke import Invoker
from rsmq.worker.runtime.lane import Job
from rsmq.worker.runtime.message_state import CALL_ABANDONED, EXPIRE, change_message
from rsmq.worker.runtime.run_queue import RunQueue

#: Calls that one task runs in a row before it yields to other tasks of the loop.
_MAX_CALLS_IN_A_ROW = 100
#: Seconds between two checks for calls whose visibility timeouts have ended.
_WATCH_SECONDS = 0.2
#: How long cancelled handlers may take to end when the loop is closed.
_CLOSE_TIMEOUT_SECONDS = 1.0


class Tasks:
    """
    Runs the calls of async handlers in a run queue.

    Attributes:
        hung_count: number of tasks that still run abandoned calls.
    """

    def __init__(
        self,
        run_queue: RunQueue,
        invoker: Invoker,
        report_idle: Callable[[], object],
        max_tasks: int,
        close_client: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """Make it; see ``Threads``. ``close_client`` closes what handlers used on the loop."""
        self._close_client = close_client
        self._run_queue = run_queue
        self._invoker = invoker
        self._report_idle = report_idle
        self._max_tasks = max_tasks
        self._sleeping: list[asyncio.Future[None]] = []
        self._alive: set[asyncio.Task[None]] = set()
        self._wake_count = 0
        self.hung_count = 0
        self._is_stopped = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closing: asyncio.Future[None] | None = None  # so that it is not collected

    def start(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Start on a running event loop, or on a new one in its own thread."""
        if loop is not None:
            self._loop = loop
            watch_loop(loop)
            self._call_on_loop(self._watch)
            return
        self._loop = asyncio.new_event_loop()
        watch_loop(self._loop)
        self._thread = threading.Thread(target=self._run_loop, name="rsmq-tasks", daemon=True)
        self._thread.start()
        self._call_on_loop(self._watch)

    def _watch(self) -> None:
        """Cancel calls whose visibility timeouts have ended; this works without Redis."""
        now = time.monotonic()
        with self._run_queue.lock:
            calls = self._run_queue.running_calls(True)
            expired = [job for job in calls if all(each.expires_at <= now for each in job.leases)]
            for lease in chain.from_iterable(job.leases for job in expired):
                change_message(lease, EXPIRE)
        for job in expired:
            _cancel(job)
        if not self._is_stopped:
            asyncio.get_running_loop().call_later(_WATCH_SECONDS, self._watch)

    def _run_loop(self) -> None:
        loop = self._loop
        assert loop is not None  # noqa: S101 - set before the thread was made
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            pending = asyncio.all_tasks(loop)
            for task in pending:
                task.cancel()
            if pending:
                loop.run_until_complete(asyncio.wait(pending, timeout=_CLOSE_TIMEOUT_SECONDS))
            with suppress(Exception):
                loop.run_until_complete(self._close_client())
            loop.run_until_complete(loop.shutdown_asyncgens())
            asyncio.set_event_loop(None)
            loop.close()

    def wake(self, minimum: int) -> None:
        """Wake tasks or start new ones, at least ``minimum``; the run queue's lock is held."""
        busy = len(self._alive) - len(self._sleeping)
        wanted = max(self._run_queue.count_to_wake(True, busy), minimum)
        if wanted and self._loop is not None:
            is_first = not self._wake_count  # schedule _wake once for each turn of the loop
            self._wake_count = max(self._wake_count, wanted)
            if is_first:
                self._call_on_loop(self._wake)

    def _wake(self) -> None:
        with self._run_queue.lock:
            wanted, self._wake_count = self._wake_count, 0
        while wanted and self._sleeping:
            sleeping = self._sleeping.pop()
            if not sleeping.done():
                sleeping.set_result(None)
                wanted -= 1
        loop = asyncio.get_running_loop()
        for _ in range(min(wanted, self._max_tasks - len(self._alive) + self.hung_count)):
            task = loop.create_task(self._run())
            self._alive.add(task)
            task.add_done_callback(self._alive.discard)

    def replace_hung(self) -> None:
        """Count the task of an abandoned call as hung; the run queue's lock is held."""
        self.hung_count += 1

    def cancel(self, job: Job) -> None:
        """Cancel a call at its next await; from any thread."""
        self._call_on_loop(partial(_cancel, job))

    def stop(self) -> None:
        """
        End the tasks.

        The worker's own loop is stopped, and its tasks are cancelled. On the caller's loop idle
        tasks end now, and the others when their calls have ended.
        """
        self._is_stopped = True
        if self._loop is None:
            return
        unwatch_loop(self._loop)
        if self._thread is not None:
            self._call_on_loop(self._loop.stop)
            self._thread.join(_CLOSE_TIMEOUT_SECONDS + 1)
        else:
            self._call_on_loop(self._wake_sleeping)
            self._call_on_loop(self._start_closing)

    def _start_closing(self) -> None:
        self._closing = asyncio.ensure_future(self._close_client())

    def _wake_sleeping(self) -> None:
        while self._sleeping:
            sleeping = self._sleeping.pop()
            if not sleeping.done():
                sleeping.set_result(None)

    def _call_on_loop(self, function: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop is closed: its owner has ended it
            if self._loop is not None:
                self._loop.call_soon_threadsafe(function)

    async def _run(self) -> None:
        run_queue = self._run_queue
        task = asyncio.current_task()
        job: Job | None = None
        calls_in_a_row = 0
        while not self._is_stopped:
            with run_queue.lock:
                if job is not None:
                    if job.call_state is CALL_ABANDONED:  # another task replaces this one
                        self.hung_count -= 1
                        return
                    run_queue.finish(job)
                job = run_queue.start_next(True)
            if job is None:
                sleeping = asyncio.get_running_loop().create_future()
                self._sleeping.append(sleeping)
                self._report_idle()
                await sleeping
                continue
            job.task = task
            await self._invoker.call_async(job)
            if task is not None:
                while task.cancelling():  # the cancellation was for the handler
                    task.uncancel()
            calls_in_a_row += 1
            if calls_in_a_row >= _MAX_CALLS_IN_A_ROW:
                calls_in_a_row = 0
                await asyncio.sleep(0)
        if job is not None:
            with run_queue.lock:
                if job.call_state is not CALL_ABANDONED:
                    run_queue.finish(job)


def _cancel(job: Job) -> None:
    task, job.task = job.task, None  # only once: a second one would interrupt its clean-up
    if task is not None and job.ended_at is None:
        task.cancel()
