"""
Waiting receives in a set of cells, for the asyncio client. ``cells_sync.py`` is for threads.
"""

from __future__ import annotations

import asyncio
from asyncio import sleep as pause
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Sequence
from contextlib import suppress
from itertools import chain, zip_longest

from rsmq.errors import ClientClosed
from rsmq.transport.aio import AsyncCaller
from rsmq.transport.retry import INTERRUPTION_GRACE_SECONDS
from rsmq.waiting.aio import AsyncWatcher
from rsmq.waiting.cells import GROUPS_SECONDS, CellQueues, group_cells, sample_cells
from rsmq.waiting.schedule import Waiter
from rsmq.waiting.sync import now
from rsmq.wire.keys import Namespace

__all__ = ["AsyncCellWaiter", "AsyncCellWatchers", "finish", "pause"]


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


class _LoopWatchers:
    """The watchers of an event loop, one for each server, and which of them has each cell."""

    def __init__(self) -> None:
        self.by_server: dict[Hashable, AsyncWatcher] = {}
        self.groups: list[tuple[AsyncWatcher, list[int]]] = []
        self.of_cell: list[AsyncWatcher] = []
        self.grouped_until = 0.0


class AsyncCellWatchers:
    """The watchers of a set of cells: one tracking connection for each server and event loop."""

    def __init__(self, cells: Sequence[tuple[AsyncCaller, Namespace]]) -> None:
        """
        Prepare the watchers; nothing is opened.

        Args:
            cells: the caller and the namespace of each cell.
        """
        self._cells = cells
        self._namespaces = [namespace for _, namespace in cells]
        self._loops: dict[asyncio.AbstractEventLoop, _LoopWatchers] = {}
        self._closed = False

    def due_cells(self, queues: CellQueues) -> list[int]:
        """Return the cells that have messages in some of the queues, as far as it is known."""
        due = (watcher.due() for watcher, _ in self.groups())
        return queues.cells_of(chain.from_iterable(zip_longest(*due)))

    def note_look(self, queues: CellQueues, cell: int, *, is_drained: bool) -> None:
        """Note that a receive has looked at a cell; see ``Schedule.note_look``."""
        self.groups()
        watcher = self._current().of_cell[cell]
        watcher.note_look(queues.by_cell[cell], is_drained=is_drained)

    def note_failure(self) -> None:
        """Note that a call failed: the cells may be on other servers now."""
        self._current().grouped_until = 0.0

    def waiter(self, queues: CellQueues) -> AsyncCellWaiter:
        """Return a waiter for the queues in all cells."""
        return AsyncCellWaiter(self, queues)

    def groups(self) -> list[tuple[AsyncWatcher, list[int]]]:
        """
        Return the watchers with their cells.

        Raises:
            ClientClosed: close() was called.
        """
        if self._closed:
            raise ClientClosed
        current = self._current()
        if now() >= current.grouped_until:
            servers = [
                (id(caller), caller.address_of(namespace.queues))
                for caller, namespace in self._cells
            ]
            by_server = group_cells(servers)
            for server, cells in by_server.items():
                if server not in current.by_server:
                    caller, _ = self._cells[cells[0]]
                    current.by_server[server] = AsyncWatcher(
                        caller, self._namespaces, servers[cells[0]][1], collects_due=True
                    )
            current.groups = [
                (current.by_server[server], cells) for server, cells in by_server.items()
            ]
            current.of_cell = [current.by_server[server] for server in servers]
            current.grouped_until = now() + GROUPS_SECONDS
        return current.groups

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

    def _current(self) -> _LoopWatchers:
        loop = asyncio.get_running_loop()
        current = self._loops.get(loop)
        if current is None:
            for other in list(self._loops):
                if other.is_closed():
                    self._loops.pop(other, None)
            current = self._loops[loop] = _LoopWatchers()
        return current


class AsyncCellWaiter:
    """A waiting receive in all cells: it waits on the watcher of each server."""

    def __init__(self, watchers: AsyncCellWatchers, queues: CellQueues) -> None:
        self._watchers = watchers
        self._queues = queues
        self._event = asyncio.Event()
        self._waiters: dict[AsyncWatcher, Waiter] = {}
        self._empty_looks = 0

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
        self._join(groups)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._event.wait()
        self._watchers.groups()  # raises if the client is closed
        cells: list[int] = []
        for watcher, of_server in groups:
            waiter = self._waiters[watcher]
            is_tracking = watcher.leave(waiter)
            if waiter.is_awake and waiter.reason is not None:
                cells.append(self._queues.places[waiter.reason][0])
                if not is_tracking:
                    cells += sample_cells(of_server, self._empty_looks)
        return list(dict.fromkeys(cells))

    def note_empty(self) -> None:
        """Note that the cells in which to look had no message."""
        self._empty_looks += 1
        for waiter in self._awake():
            waiter.empty_receives += 1

    def note_receive(self, cells: Collection[int]) -> None:
        """
        Note that messages were received.

        If it was also woken for another cell, ``close`` wakes another waiter for that one.

        Args:
            cells: the cells of the messages.
        """
        self._empty_looks = 0
        for watcher, waiter in self._waiters.items():
            if waiter.is_awake and (
                waiter.reason is None or self._queues.places[waiter.reason][0] in cells
            ):
                watcher.note_receive(waiter)

    def close(self) -> None:
        """End the wait; if it was woken and has not received, another one is woken instead."""
        for watcher, waiter in self._waiters.items():
            watcher.remove(waiter)

    def _join(self, groups: Iterable[tuple[AsyncWatcher, list[int]]]) -> None:
        waiters: dict[AsyncWatcher, Waiter] = {}
        for watcher, cells in groups:
            keys = tuple(key for cell in cells for key in self._queues.by_cell[cell])
            waiter = self._waiters.pop(watcher, None)
            if waiter is None:
                waiter = Waiter(keys, self._event.set)
            waiter.queues = keys
            waiters[watcher] = waiter
        for watcher, waiter in self._waiters.items():  # their cells have moved
            watcher.remove(waiter)
        self._waiters = waiters
        for watcher, waiter in waiters.items():
            watcher.add(waiter)

    def _awake(self) -> Iterable[Waiter]:
        return (waiter for waiter in self._waiters.values() if waiter.is_awake)
