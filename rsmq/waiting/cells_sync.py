"""
Waiting receives in a set of cells, for the synchronous client. ``cells_aio.py`` is for asyncio.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from itertools import chain, zip_longest
from time import sleep as pause

from rsmq.errors import ClientClosed
from rsmq.transport.signals import DeferredSignals, Flag
from rsmq.transport.sync import Caller
from rsmq.waiting.cells import GROUPS_SECONDS, CellQueues, group_cells, sample_cells
from rsmq.waiting.event_loop import warn_in_event_loop
from rsmq.waiting.schedule import Waiter
from rsmq.waiting.sync import Watcher, now
from rsmq.wire.keys import Namespace

__all__ = ["CellWaiter", "CellWatchers", "finish", "pause"]


def finish(release: Callable[[], None]) -> None:
    """
    Release messages.

    Args:
        release: releases them.
    """
    release()


class _ProcessWatchers:
    """The watchers of a process, one for each server, and which of them has each cell."""

    def __init__(self) -> None:
        self.by_server: dict[Hashable, Watcher] = {}
        self.groups: list[tuple[Watcher, list[int]]] = []
        self.of_cell: list[Watcher] = []
        self.grouped_until = 0.0


class CellWatchers:
    """The watchers of a set of cells: one tracking connection for each server and process."""

    def __init__(self, cells: Sequence[tuple[Caller, Namespace]]) -> None:
        """
        Prepare the watchers; nothing is opened.

        Args:
            cells: the caller and the namespace of each cell.
        """
        self._cells = cells
        self._namespaces = [namespace for _, namespace in cells]
        self._processes: dict[int, _ProcessWatchers] = {}
        self._closed = False

    def due_cells(self, queues: CellQueues) -> list[int]:
        """Return the cells that have messages in some of the queues, as far as it is known."""
        due = (watcher.due() for watcher, _ in self.groups())
        return queues.cells_of(chain.from_iterable(zip_longest(*due)))

    def of_cell(self, cell: int) -> Watcher:
        """
        Return the watcher of the server that has a cell now.

        Raises:
            ClientClosed: close() was called.
        """
        self.groups()
        return self._current().of_cell[cell]

    def note_look(self, queues: CellQueues, cell: int, *, is_drained: bool) -> None:
        """Note that a receive has looked at a cell; see ``Schedule.note_look``."""
        self.of_cell(cell).note_look(queues.by_cell[cell], is_drained=is_drained)

    def note_failure(self) -> None:
        """Note that a call failed: the cells may be on other servers now."""
        self._current().grouped_until = 0.0

    def waiter(self, queues: CellQueues) -> CellWaiter:
        """Return a waiter for the queues in all cells."""
        return CellWaiter(self, queues)

    def groups(self) -> list[tuple[Watcher, list[int]]]:
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
                    new = Watcher(caller, self._namespaces, servers[cells[0]][1], collects_due=True)
                    current.by_server.setdefault(server, new)  # atomic among threads
            current.groups = [
                (current.by_server[server], cells) for server, cells in by_server.items()
            ]
            current.of_cell = [current.by_server[server] for server in servers]
            current.grouped_until = now() + GROUPS_SECONDS
        return current.groups

    def close(self) -> None:
        """End all waits with ClientClosed, and end the threads."""
        self._closed = True
        for current in list(self._processes.values()):
            for watcher in list(current.by_server.values()):
                watcher.close()

    def release_idle_connections(self) -> None:
        """Make the idle connections of this thread available to other threads."""
        for caller in {id(caller): caller for caller, _ in self._cells}.values():
            caller.release_idle_connection()

    def _current(self) -> _ProcessWatchers:
        process = os.getpid()
        current = self._processes.get(process)
        if current is None:
            current = self._processes.setdefault(process, _ProcessWatchers())  # atomic
        return current


class CellWaiter:
    """A waiting receive in all cells: it waits on the watcher of each server."""

    def __init__(self, watchers: CellWatchers, queues: CellQueues) -> None:
        self._watchers = watchers
        self._queues = queues
        self._flag = Flag()
        self._waiters: dict[Watcher, Waiter] = {}
        self._empty_looks = 0

    def wait(self, seconds: float | None) -> list[int]:
        """
        Wait until there may be a message.

        Args:
            seconds: the longest wait; None is forever.

        Returns:
            The cells in which to look; none at the deadline.

        Raises:
            ClientClosed: close() was called.
        """
        warn_in_event_loop()
        with DeferredSignals():
            self._flag.clear()
            groups = self._watchers.groups()
            self._join(groups)
        self._watchers.release_idle_connections()
        self._flag.wait(seconds)
        self._watchers.groups()  # raises if the client is closed
        cells: list[int] = []
        with DeferredSignals():
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

    def _join(self, groups: Iterable[tuple[Watcher, list[int]]]) -> None:
        waiters: dict[Watcher, Waiter] = {}
        for watcher, cells in groups:
            keys = tuple(key for cell in cells for key in self._queues.by_cell[cell])
            waiter = self._waiters.pop(watcher, None)
            if waiter is None:
                waiter = Waiter(keys, self._flag.set)
            waiter.queues = keys
            waiters[watcher] = waiter
        for watcher, waiter in self._waiters.items():  # their cells have moved
            watcher.remove(waiter)
        self._waiters = waiters
        for watcher, waiter in waiters.items():
            watcher.add(waiter)

    def _awake(self) -> Iterable[Waiter]:
        return (waiter for waiter in self._waiters.values() if waiter.is_awake)
