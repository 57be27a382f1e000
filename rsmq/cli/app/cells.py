"""
Sets of cells on the command line: their client, and the cells in which a command could not run.

A command continues if some cells fail. It writes the result of the others, and ends with an error
that names the failed cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rsmq._sync.cells import Cells
from rsmq._sync.engine import CellEngine
from rsmq.cli.app.errors import ErrorReport, describe_partly_done
from rsmq.errors import NotReplicated, PartlyDone

if TYPE_CHECKING:
    from rsmq.transport.threads.caller import Caller


class _Engine(CellEngine):
    """The cells of a set. The errors of some cells are collected, and not raised."""

    failures: list[PartlyDone]

    def raise_partly_done(
        self,
        errors: Mapping[int, Exception],
        result: Any,
        unconfirmed: Mapping[int, NotReplicated] | None = None,
    ) -> None:
        """Note the errors of a call that ran in some cells; raise those of one that ran in none."""
        try:
            super().raise_partly_done(errors, result, unconfirmed)
        except PartlyDone as error:
            if len(errors) == self.number:
                raise
            self.failures.append(error)


class CellsOfCommand(Cells):
    """
    The client of a set of cells for one command: calls return the results of the cells that work.

    Attributes:
        failures: the errors of the calls that did not run in all cells.
    """

    def _open(self, callers: Sequence[Caller]) -> None:
        self.failures: list[PartlyDone] = []
        self._engine = engine = _Engine(callers, self._names, self._settings)
        engine.failures = self.failures

    def describe_failures(self) -> ErrorReport | None:
        """Return the report of all calls that did not run in all cells; None without one."""
        return describe_partly_done(self.failures) if self.failures else None
