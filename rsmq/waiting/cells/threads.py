"""
Waiting receives in a set of cells, for the synchronous client. ``asyncio_.py`` is for asyncio.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from rsmq.transport.signals import DeferredSignals, Flag
from rsmq.transport.threads.caller import Caller
from rsmq.waiting.cells.queues import CellQueues
from rsmq.waiting.cells.watchers import AnyCellWaiter, AnyCellWatchers, ServerWatchers
from rsmq.waiting.event_loop import warn_in_event_loop
from rsmq.waiting.threads import Watcher
from rsmq.wire.keys import Namespace


class CellWatchers(AnyCellWatchers[Caller, Watcher]):
    """The watchers of a set of cells: one tracking connection for each server and process."""

    def __init__(self, cells: Sequence[tuple[Caller, Namespace]]) -> None:
        self._processes: dict[int, ServerWatchers[Watcher]] = {}
        super().__init__(cells)

    def waiter(self, queues: CellQueues) -> CellWaiter:
        """Return a waiter for the queues in all cells."""
        return CellWaiter(self, queues)

    def close(self) -> None:
        """End all waits with ClientClosed, and end the threads."""
        self._closed = True
        for current in list(self._processes.values()):
            for watcher in list(current.by_server.values()):
                watcher.close()

    def __del__(self) -> None:
        for current in list(self._processes.values()):
            for watcher in list(current.by_server.values()):
                watcher.abandon()

    def release_idle_connections(self) -> None:
        """Make the idle connections of this thread available to other threads."""
        for caller in {id(caller): caller for caller, _ in self._cells}.values():
            caller.release_idle_connection()

    def _make_watcher(self, cell: int) -> Watcher:
        caller, namespace = self._cells[cell]
        address = caller.address_of(namespace.queues)
        return Watcher(caller, self._namespaces, address, collects_due=True)

    def _current(self) -> ServerWatchers[Watcher]:
        process = os.getpid()
        current = self._processes.get(process)
        if current is None:
            current = self._processes.setdefault(process, ServerWatchers())  # atomic
        return current


class CellWaiter(AnyCellWaiter[Watcher]):
    """A waiting receive in all cells, of a thread."""

    def __init__(self, watchers: CellWatchers, queues: CellQueues) -> None:
        self._watchers = watchers
        self._flag = Flag()
        super().__init__(queues, self._flag.set)

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
            self.join(groups)
        self._watchers.release_idle_connections()
        self._flag.wait(seconds)
        self._watchers.groups()  # raises if the client is closed
        with DeferredSignals():
            return self.leave(groups)
