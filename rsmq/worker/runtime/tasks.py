"""
Tasks that await async handlers, on the worker's own event loop or a running one.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from rsmq.worker.runtime.invoke import Invoker
from rsmq.worker.runtime.message_state import Job
from rsmq.worker.runtime.run_queue import RunQueue

#: Calls that one task makes in a row before others of the loop have their turn.
_IN_A_ROW = 100
#: Seconds between two looks at the clock.
_WATCH = 0.2
#: How long cancelled handlers may take to end when the loop is closed, seconds.
_CLOSING = 1.0


class Tasks:
    """Makes the calls of async functions in a run queue."""

    def __init__(
        self, run_queue: RunQueue, invoker: Invoker, idle: Callable[[], object], most: int
    ) -> None:
        """As of ``Threads``."""
        self._run_queue = run_queue
        self._invoker = invoker
        self._on_idle = idle
        self._most = most
        self._sleeping: list[asyncio.Future[None]] = []
        self._alive: set[asyncio.Task[None]] = set()
        self._asked = 0
        self._hung = 0
        self._stopped = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Begin, on a loop that runs already, or on one of our own in a thread of its own."""
        if loop is not None:
            self._loop = loop
            self._from_elsewhere(self._watch)
            return
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, name="rsmq-tasks", daemon=True)
        self._thread.start()
        self._from_elsewhere(self._watch)

    def _watch(self) -> None:
        """Cancel what runs on past its visibility timeout, also while Redis can't be reached."""
        now = time.monotonic()
        with self._run_queue.lock:
            calls = self._run_queue.calls(True)
        for job in calls:
            if job.task is not None and all(lease.ends <= now for lease in job.leases):
                _cancel(job)
        if not self._stopped:
            asyncio.get_running_loop().call_later(_WATCH, self._watch)

    def _work(self) -> None:
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
                loop.run_until_complete(asyncio.wait(pending, timeout=_CLOSING))
            loop.run_until_complete(loop.shutdown_asyncgens())
            asyncio.set_event_loop(None)
            loop.close()

    def wake(self, at_least: int) -> None:
        """There are calls to be made, by so many more at least; the run queue's lock is held."""
        busy = len(self._alive) - len(self._sleeping)
        wanted = max(self._run_queue.worth_waking(True, busy), at_least)
        if wanted and self._loop is not None:
            ask = not self._asked  # once a turn of the loop
            self._asked = max(self._asked, wanted)
            if ask:
                self._from_elsewhere(self._wake)

    def _wake(self) -> None:
        with self._run_queue.lock:
            wanted, self._asked = self._asked, 0
        while wanted and self._sleeping:
            sleeping = self._sleeping.pop()
            if not sleeping.done():
                sleeping.set_result(None)
                wanted -= 1
        loop = asyncio.get_running_loop()
        for _ in range(min(wanted, self._most - len(self._alive) + self._hung)):
            task = loop.create_task(self._run())
            self._alive.add(task)
            task.add_done_callback(self._alive.discard)

    def forget(self) -> None:
        """Of a call that hangs: its task counts no more. The run queue's lock is held."""
        self._hung += 1

    def cancel(self, job: Job) -> None:
        """End a call, at its next await; from any thread."""
        self._from_elsewhere(partial(_cancel, job))

    def stop(self) -> None:
        """End those that are idle, and the others when their calls have ended."""
        self._stopped = True
        if self._loop is None:
            return
        if self._thread is not None:
            self._from_elsewhere(self._loop.stop)
            self._thread.join(_CLOSING + 1)
        else:
            self._from_elsewhere(self._end_idle)

    def _end_idle(self) -> None:
        while self._sleeping:
            sleeping = self._sleeping.pop()
            if not sleeping.done():
                sleeping.set_result(None)

    def _from_elsewhere(self, function: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop is closed: whoever owned it has ended it
            if self._loop is not None:
                self._loop.call_soon_threadsafe(function)

    async def _run(self) -> None:
        run_queue = self._run_queue
        task = asyncio.current_task()
        job: Job | None = None
        made = 0
        while not self._stopped:
            with run_queue.lock:
                if job is not None:
                    if job.let_go:  # another has taken this task's place
                        self._hung -= 1
                        return
                    run_queue.end(job)
                job = run_queue.next(True)
            if job is None:
                sleeping = asyncio.get_running_loop().create_future()
                self._sleeping.append(sleeping)
                self._on_idle()
                await sleeping
                continue
            job.task = task
            await self._invoker.await_(job)
            if task is not None:
                while task.cancelling():  # that was the handler's
                    task.uncancel()
            made += 1
            if made >= _IN_A_ROW:
                made = 0
                await asyncio.sleep(0)
        if job is not None:
            with run_queue.lock:
                if not job.let_go:
                    run_queue.end(job)


def _cancel(job: Job) -> None:
    if job.task is not None and job.ended is None and not job.called_off:
        job.called_off = True  # once: what it does to clean up may take its time
        job.task.cancel()
