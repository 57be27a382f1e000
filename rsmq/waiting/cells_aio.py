"""
Waiting receives in a set of cells, for the asyncio client. ``cells_sync.py`` is for threads.
"""

from __future__ import annotations

import asyncio
from asyncio import sleep as pause
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext, suppress

from rsmq.transport.aio import AsyncCaller
from rsmq.transport.retry import INTERRUPTION_GRACE_SECONDS
from rsmq.waiting.aio import AsyncWatcher
from rsmq.waiting.cell_watchers import AnyCellWaiter, AnyCellWatchers, ServerWatchers
from rsmq.waiting.cells import CellQueues
from rsmq.waiting.sync import now
from rsmq.wire.keys import Namespace

__all__ = ["AsyncCellWaiter", "AsyncCellWatchers", "deferred_signals", "finish", "pause"]

deferred_signals = nullcontext  # a task is cancelled only where it awaits


async def finish(release: Callable[[], Awaitable[None]]) -> None:
    """
    Release messages. It is not cancelled with the task, and awaited for at most a second.

    Args:
        release: releases them.

    Raises:
        CancelledError: the task was cancelled meanwhile.
    """
    task = asyncio.ensure_future(release())
    until = now() + INTERRUPTION_GRACE_SECONDS
    cancellation: asyncio.CancelledError | None = None
    while not task.done() and (seconds := until - now()) > 0:
        try:
            await asyncio.wait((task,), timeout=seconds)
        except asyncio.CancelledError as error:
            cancellation = error
    if not task.done():
        task.cancel()
    if cancellation is not None:
        raise cancellation


class AsyncCellWatchers(AnyCellWatchers[AsyncCaller, AsyncWatcher]):
    """The watchers of a set of cells: one tracking connection for each server and event loop."""

    def __init__(self, cells: Sequence[tuple[AsyncCaller, Namespace]]) -> None:
        """
        Prepare the watchers; nothing is opened.

        Args:
            cells: the caller and the namespace of each cell.
        """
        super().__init__(cells)
        self._loops: dict[asyncio.AbstractEventLoop, ServerWatchers[AsyncWatcher]] = {}

    def waiter(self, queues: CellQueues) -> AsyncCellWaiter:
        """Return a waiter for the queues in all cells."""
        return AsyncCellWaiter(self, queues)

    async def close(self) -> None:
        """End all waits with ClientClosed, and end the tasks of all event loops."""
        self._closed = True
        running = asyncio.get_running_loop()
        for loop, current in list(self._loops.items()):
            for watcher in list(current.by_server.values()):
                if loop is running:
                    await watcher.close()
                elif not loop.is_closed():
                    asyncio.run_coroutine_threadsafe(watcher.close(), loop)

    def _make_watcher(self, cell: int) -> AsyncWatcher:
        caller, namespace = self._cells[cell]
        address = caller.address_of(namespace.queues)
        return AsyncWatcher(caller, self._namespaces, address, collects_due=True)

    def _current(self) -> ServerWatchers[AsyncWatcher]:
        loop = asyncio.get_running_loop()
        current = self._loops.get(loop)
        if current is None:
            for other in list(self._loops):
                if other.is_closed():
                    self._loops.pop(other, None)
            current = self._loops[loop] = ServerWatchers()
        return current


class AsyncCellWaiter(AnyCellWaiter[AsyncWatcher]):
    """A waiting receive in all cells, of a task."""

    def __init__(self, watchers: AsyncCellWatchers, queues: CellQueues) -> None:
        self._watchers = watchers
        self._event = asyncio.Event()
        super().__init__(queues, self._event.set)

    async def wait(self, seconds: float | None) -> list[int]:
        """
        Wait until there may be a message.

        Args:
            seconds: the longest wait; None is forever.

        Returns:
            The cells in which to look; none at the deadline.

        Raises:
            ClientClosed: close() was called.
        """
        self._event.clear()
        groups = self._watchers.groups()
        self.join(groups)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        self._watchers.groups()  # raises if the client is closed
        return self.leave(groups)
