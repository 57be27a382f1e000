"""
Waiting receives in a set of cells, for the asyncio client. ``threads.py`` is for threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from rsmq.transport.asyncio_.caller import AsyncCaller
from rsmq.waiting.asyncio_ import AsyncWatcher
from rsmq.waiting.cells.queues import CellQueues
from rsmq.waiting.cells.watchers import AnyCellWaiter, AnyCellWatchers, ServerWatchers
from rsmq.wire.keys import Namespace


class AsyncCellWatchers(AnyCellWatchers[AsyncCaller, AsyncWatcher]):
    """The watchers of a set of cells: one tracking connection for each server and event loop."""

    def __init__(self, cells: Sequence[tuple[AsyncCaller, Namespace]]) -> None:
        self._loops: dict[asyncio.AbstractEventLoop, ServerWatchers[AsyncWatcher]] = {}
        super().__init__(cells)

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

    def __del__(self) -> None:
        for loop, current in list(self._loops.items()):
            for watcher in list(current.by_server.values()):
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(watcher.abandon)

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
