"""
Sets of cells on the command line: their client, and the cells in which a command could not run.

A command continues if some cells fail. It writes the result of the others, and ends with an error
that names the failed cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from rsmq._sync.cells import Cells
from rsmq._sync.engine import CellEngine
from rsmq.cli.app.errors import ErrorReport, describe_partly_done
from rsmq.errors import NotReplicated, PartlyDone
from rsmq.wire.cells import split_id

if TYPE_CHECKING:
    from rsmq._sync.client import RSMQ
    from rsmq.transport.threads.caller import Caller

T = TypeVar("T")


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

    def by_cell(self, call: Callable[[RSMQ[Any]], T]) -> dict[int, T]:
        """
        Make a call in each cell, one after another, and return the results by cell.

        Args:
            call: makes the call with the client of a cell.

        Raises:
            RSMQError: the error of the call, if it has the same one in all cells.
            CellsMismatch: a cell belongs to another set.
        """
        return self._engine.by_cell(call)

    def describe_failures(self) -> ErrorReport | None:
        """Return the report of all calls that did not run in all cells; None without one."""
        return describe_partly_done(self.failures) if self.failures else None


def find_missing(cells: Cells, ids: Iterable[str], found: Iterable[str]) -> list[str]:
    """
    Return the ids whose messages do not exist.

    A message whose cell has failed may exist. So may one that could be in a failed cell.

    Args:
        cells: the client.
        ids: ids with or without the numbers of their cells.
        found: the ids of the messages that exist, with the numbers of their cells.
    """
    number = len(cells.cells)
    errors = cells.failures if isinstance(cells, CellsOfCommand) else ()
    failed = {cell for error in errors for cell in error.cells}
    existing = set(found)
    existing_in_any = {split_id(id, number)[1] for id in existing}
    missing = []
    for id in ids:
        cell, stored = split_id(id, number)
        exists = stored in existing_in_any if cell is None else id in existing
        if not exists and not (bool(failed) if cell is None else cell in failed):
            missing.append(id)
    return missing
