"""
The set of cells that a process of Spark uses.
"""

from __future__ import annotations

from collections.abc import Sequence

from rsmq import Cells
from rsmq.transport.threads.caller import Caller
from rsmq.waiting.cells.threads import CellWatchers
from rsmq.waiting.threads import Watcher


class CellsOfProcess(Cells):
    """The set of cells of a process."""

    def _open(self, callers: Sequence[Caller]) -> None:
        super()._open(callers)
        self.callers = callers
        namespaces = [client.namespace for client in self.cells]
        self._watchers = CellWatchers(list(zip(callers, namespaces, strict=True)))

    def check_cell(self, cell: int) -> None:
        """
        Check that a cell belongs to the set.

        Raises:
            CellsMismatch: it belongs to another one.
            RedisError, OSError: its server can't be reached.
        """
        self._engine.client(cell)

    def find_watcher(self, cell: int) -> Watcher:
        """Return the watcher of the server that has a cell now."""
        return self._watchers.of_cell(cell)

    def close(self) -> None:
        """See ``Cells.close``."""
        self._watchers.close()
        super().close()
