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
from rsmq.worker.failure import summarize
from rsmq.worker.run.blocked_loop import LoopBeat
from rsmq.worker.run.executor import ExecutorEnd, Stall
from rsmq.worker.run.invoke import Invoker, is_cancelled_by_program
from rsmq.worker.run.run_queue import RunQueue
from rsmq.worker.state.calls import Job
from rsmq.worker.state.error_reader import read_error
from rsmq.worker.state.message_state import CALL_ABANDONED, CALL_RUNNING, EXPIRE, change_message

#: Calls that one task runs in a row before it yields to other tasks of the loop.
_MAX_CALLS_IN_A_ROW = 100
#: Seconds between two checks for calls whose visibility timeouts have ended.
_WATCH_SECONDS = 0.2
#: How long cancelled handlers may take to end when the loop is closed.
_CLOSE_TIMEOUT_SECONDS = 1.0
#: How long the caller's event loop may be between two runs.
_MAX_PAUSE_SECONDS = 5.0


class EventLoopTasks:
    """
    Runs the calls of async handlers in a run queue.

    Attributes:
        hung_count: number of tasks that still run abandoned calls.
        end, stall: see ``Executor``.
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
        self.max_calls = max_tasks
        self._sleeping: list[asyncio.Future[None]] = []
        self._alive: set[asyncio.Task[None]] = set()
        self._wake_count = 0
        self.hung_count = 0
        self.end: ExecutorEnd | None = None
        self.stall: Stall | None = None
        self._beat = LoopBeat(run_queue.async_lanes)
        self._is_stopped = False
        self._ran_at = 0.0  # monotonic seconds at which the caller's loop was seen to run
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closing: asyncio.Future[None] | None = None  # so that it is not collected

    def start(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Start on a running event loop, or on a new one in its own thread."""
        if loop is not None:
            self._loop, self._ran_at = loop, time.monotonic()
            watch_loop(loop)
            self._call_on_loop(self._watch)
            return
        self._loop = asyncio.new_event_loop()
        watch_loop(self._loop)
        self._thread = threading.Thread(target=self._run_loop, name="rsmq-tasks", daemon=True)
        self._thread.start()
        self._call_on_loop(self._watch)

    def _watch(self) -> None:
        """Beat, and cancel calls whose visibility timeouts have ended; this works without Redis."""
        self._beat.beat()
        now = time.monotonic()
        with self._run_queue.lock:
            calls = self._run_queue.running_calls(True)
            # A call that has ended is the loop's, which decides on its messages without the lock.
            expired = [
                job
                for job in calls
                if job.ended_at is None and all(each.expires_at <= now for each in job.leases)
            ]
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
        cause = "Its event loop was stopped"
        try:
            loop.run_forever()
        except BaseException as error:  # noqa: BLE001 - as SystemExit of a task or a callback
            cause = f"Its event loop has ended by {summarize(read_error(error))}"
        if not self._is_stopped:
            self._note_end(cause)
        pending = asyncio.all_tasks(loop)
        for task in pending:
            task.cancel()
        if pending:
            _run_to_its_end(loop, asyncio.wait(pending, timeout=_CLOSE_TIMEOUT_SECONDS))
        for task in self._alive:
            # Its handler ignores the cancellation. The worker has logged that; asyncio would say
            # once more, when the task is freed, that it was pending.
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001
        _run_to_its_end(loop, self._close_client())
        _run_to_its_end(loop, loop.shutdown_asyncgens())
        asyncio.set_event_loop(None)
        loop.close()

    def _note_end(self, cause: str) -> None:
        """Abandon the calls, which never end: the event loop runs no longer."""
        self._is_stopped = True
        with self._run_queue.lock:
            calls = self._run_queue.running_calls(True)
            self.end = ExecutorEnd(cause, self._run_queue.abandon(calls))
        self._report_idle()

    def _note_stall(self, stall: Stall) -> None:
        """Abandon the calls but the one that blocks the event loop, which fails."""
        self._is_stopped = True
        with self._run_queue.lock:
            calls = [job for job in self._run_queue.running_calls(True) if job is not stall.job]
            abandoned = self._run_queue.abandon(calls)
            self.hung_count += len(abandoned)
            self.end = ExecutorEnd(stall.cause, abandoned, stall)

    def check(self, now: float) -> None:
        """Find out whether the event loop is blocked, or is the caller's and has ended."""
        if self._loop is None or self._is_stopped:
            return
        if self._loop.is_running():
            self._ran_at = now
            self.stall = self._beat.check(now)
            if self.stall is not None and self.stall.is_over:
                self._note_stall(self.stall)
        elif self._thread is not None:
            return
        elif self._loop.is_closed():
            self._note_end("Its event loop was closed")
        elif now - self._ran_at > _MAX_PAUSE_SECONDS:
            self._note_end("Its event loop runs no longer")

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
        for _ in range(min(wanted, self.max_calls - len(self._alive) + self.hung_count)):
            task = loop.create_task(self._run())
            self._alive.add(task)
            task.add_done_callback(self._alive.discard)

    def replace_hung(self) -> None:
        """Count the task of an abandoned call as hung; the run queue's lock is held."""
        self.hung_count += 1

    def cancel(self, job: Job) -> None:
        """Cancel a call at its next await; from any thread."""
        self._call_on_loop(partial(_cancel, job))

    def time_out(self, job: Job) -> None:
        """Cancel a call that has exceeded its max_runtime; from any thread."""
        self._call_on_loop(partial(_time_out, job))

    def interrupt(self) -> bool:
        """See ``Executor``. Tasks are cancelled when the loop has ended."""
        return False

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
        try:
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
                rest = self._invoker.begin_async(job)
                if rest is not None:
                    await rest
                if task is not None and task.cancelling() and not _resume(task, job):
                    return  # another task replaces this one
                calls_in_a_row += 1
                if calls_in_a_row >= _MAX_CALLS_IN_A_ROW:
                    calls_in_a_row = 0
                    await asyncio.sleep(0)
        finally:  # another task may also cancel this one between two calls
            if job is not None:
                with run_queue.lock:
                    if job.call_state is CALL_RUNNING:
                        run_queue.finish(job)


def _resume(task: asyncio.Task[None], job: Job) -> bool:
    """Let a task continue if the worker has cancelled its call. Return whether it did."""
    if is_cancelled_by_program(task, job):
        return False
    while task.cancelling():
        task.uncancel()
    return True


def _run_to_its_end(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any]) -> None:
    with suppress(BaseException):  # a task may raise SystemExit again
        loop.run_until_complete(work)


def _cancel(job: Job) -> None:
    task, job.task = job.task, None  # only once: a second one would interrupt its clean-up
    if task is not None and job.ended_at is None:
        task.cancel()


def _time_out(job: Job) -> None:
    if job.task is not None and job.ended_at is None:
        job.is_timed_out = True
        _cancel(job)
