"""
The watchers of the servers of a set of cells, and a receive that waits on all of them.

Without I/O. ``threads.py`` and ``asyncio_.py`` add threads and event loops.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Generic, Protocol, TypeVar

from rsmq.errors import ClientClosed
from rsmq.transport.clock import now
from rsmq.transport.topology.address import Address
from rsmq.waiting.cells.queues import CellQueues, sample_cells
from rsmq.waiting.schedule import Waiter
from rsmq.wire.keys import Namespace
from rsmq.wire.throttle import NO_LIMITS, Limit

#: Seconds for which the grouping of cells by server is used.
GROUPS_SECONDS = 0.5


class AnyCaller(Protocol):
    """A caller of either client."""

    def address_of(self, key: bytes) -> Address | None:
        """Return the server that has a key, as far as it is known; None if there is only one."""


class AnyWatcher(Protocol):
    """A watcher of either client; see ``Watcher`` for the methods."""

    def add(self, waiter: Waiter) -> None: ...

    def leave(self, waiter: Waiter) -> bool: ...

    def remove(self, waiter: Waiter) -> None: ...

    def unread(self, queues: Iterable[bytes]) -> list[bytes]: ...

    def due(self) -> list[bytes]: ...

    def note_look(
        self, queues: Iterable[bytes], *, is_drained: bool, limits: Mapping[int, Limit]
    ) -> None: ...

    def remove_all_due(self) -> None: ...

    def note_receive(self, waiter: Waiter) -> None: ...


C = TypeVar("C", bound=AnyCaller)
W = TypeVar("W", bound=AnyWatcher)


class ServerWatchers(Generic[W]):
    """The watchers of a process or an event loop, one for each server, and their cells."""

    def __init__(self) -> None:
        self.by_server: dict[Hashable, W] = {}
        self.groups: list[tuple[W, list[int]]] = []
        self.of_cell: list[W] = []
        self.grouped_until = 0.0

    def group(self, servers: Sequence[Hashable], make_watcher: Callable[[int], W]) -> None:
        """Group cells by their servers."""
        cells_by_server: dict[Hashable, list[int]] = {}
        for cell, server in enumerate(servers):
            cells_by_server.setdefault(server, []).append(cell)
        for server, cells in cells_by_server.items():
            if server not in self.by_server:
                self.by_server.setdefault(server, make_watcher(cells[0]))  # atomic among threads
        self.groups = [(self.by_server[server], cells) for server, cells in cells_by_server.items()]
        of_cell = [self.by_server[server] for server in servers]
        if self.of_cell and of_cell != self.of_cell:
            # A look at a cell that has moved is not noted by its previous watcher any longer.
            for watcher in self.by_server.values():
                watcher.remove_all_due()
        self.of_cell = of_cell


class AnyCellWatchers(ABC, Generic[C, W]):
    """The watchers of a set of cells: one for each server, and process or event loop."""

    def __init__(self, cells: Sequence[tuple[C, Namespace]]) -> None:
        """
        Prepare the watchers; nothing is opened.

        Args:
            cells: the caller and the namespace of each cell.
        """
        self._cells = cells
        self._namespaces = [namespace for _, namespace in cells]
        self._closed = False

    @abstractmethod
    def _current(self) -> ServerWatchers[W]:
        """Return the watchers of this process, or of the running event loop."""

    @abstractmethod
    def _make_watcher(self, cell: int) -> W:
        """Return a new watcher of the server of a cell."""

    def due_cells(self, queues: CellQueues) -> Iterable[int]:
        """Return the cells that have messages in some of the queues, as far as it is known."""
        due = [keys for watcher, _ in self.groups() if (keys := watcher.due())]
        return queues.cells_of(chain.from_iterable(zip_longest(*due)))

    def of_cell(self, cell: int) -> W:
        """
        Return the watcher of the server that has a cell now.

        Raises:
            ClientClosed: close() was called.
        """
        return self._grouped().of_cell[cell]

    def note_look(
        self,
        queues: CellQueues,
        cell: int,
        *,
        is_drained: bool,
        limits: Mapping[int, Limit] = NO_LIMITS,
    ) -> None:
        """
        Note that a receive has looked at a cell; see ``Schedule.note_look``.

        Args:
            limits: the limits that it has reached, by the place of their queues.
        """
        watcher = self._grouped().of_cell[cell]
        watcher.note_look(queues.by_cell[cell], is_drained=is_drained, limits=limits)

    def note_failure(self) -> None:
        """Note that a call failed: the cells may be on other servers now."""
        self._current().grouped_until = 0.0

    def groups(self) -> list[tuple[W, list[int]]]:
        """
        Return the watchers with their cells.

        Raises:
            ClientClosed: close() was called.
        """
        return self._grouped().groups

    def _grouped(self) -> ServerWatchers[W]:
        """Return the watchers, with cells that were grouped by their servers not long ago."""
        if self._closed:
            raise ClientClosed
        current = self._current()
        if now() >= current.grouped_until:
            current.group(
                [(id(caller), caller.address_of(ns.queues)) for caller, ns in self._cells],
                self._make_watcher,
            )
            current.grouped_until = now() + GROUPS_SECONDS
        return current


class AnyCellWaiter(Generic[W]):
    """
    A receive that waits in all cells, on the watcher of each server.

    Attributes:
        unread_cells: after a wait until the deadline: the cells of which it is not known that they
            had no message, because a server was too slow to report that.
    """

    def __init__(self, queues: CellQueues, wake: Callable[[], object]) -> None:
        """
        Create a waiter that does not wait yet.

        Args:
            wake: ends the wait.
        """
        self._queues = queues
        self._wake = wake
        self.unread_cells: list[int] = []
        self._waiters: dict[W, Waiter] = {}
        self._empty_looks = 0

    def join(self, groups: Iterable[tuple[W, list[int]]]) -> None:
        """Wait on these watchers for their cells, and no longer on others."""
        waiters: dict[W, Waiter] = {}
        for watcher, cells in groups:
            keys = tuple(key for cell in cells for key in self._queues.by_cell[cell])
            waiter = self._waiters.pop(watcher, None) or Waiter(keys, self._wake)
            waiter.queues = keys
            waiters[watcher] = waiter
        for watcher, waiter in self._waiters.items():  # their cells have moved
            watcher.remove(waiter)
        self._waiters = waiters
        for watcher, waiter in waiters.items():
            watcher.add(waiter)

    def leave(self, groups: Iterable[tuple[W, list[int]]]) -> list[int]:
        """
        Leave the watchers for the time of a look; return the cells in which to look.

        Raises:
            RuntimeError: a watcher has failed; the next wait starts it again.
        """
        if not any(waiter.is_awake for waiter in self._waiters.values()):
            unread = [watcher.unread(waiter.queues) for watcher, waiter in self._waiters.items()]
            self.unread_cells = list(self._queues.cells_of(chain.from_iterable(unread)))
        cells: list[int] = []
        for watcher, of_server in groups:
            waiter = self._waiters[watcher]
            is_tracking = watcher.leave(waiter)
            waiter.raise_failure()
            if not waiter.is_awake:
                continue
            if waiter.reason is not None:
                cells.append(self._queues.places[waiter.reason][0])
            if waiter.reason is None or not is_tracking:  # None: the watcher has ended
                cells += sample_cells(of_server, self._empty_looks)
        return list(dict.fromkeys(cells))

    def note_empty(self) -> None:
        """Note that the cells in which to look had no message."""
        self._empty_looks += 1
        for waiter in self._waiters.values():
            if waiter.is_awake:
                waiter.empty_receives += 1

    def note_receive(self, cells: Collection[int]) -> None:
        """
        Note that messages were received.

        If it was also woken for another cell, ``close`` wakes another waiter for that one.
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
