"""
``examine_cells``: each cell of a set, and the differences between cells.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from rsmq._sync.cell_client import CellClient
from rsmq._sync.cells import Cells
from rsmq.doctor import examination
from rsmq.doctor.catalogue import SERVER_FAULTS
from rsmq.doctor.cell_faults import UNREACHABLE, find_differences, find_record_faults
from rsmq.doctor.finding import Finding, Report, make_finding
from rsmq.doctor.operations import QueueFacts
from rsmq.doctor.queue_faults import read_queue_facts
from rsmq.errors import QueueNotFound
from rsmq.operations.cells import CellRecord, claim_cell
from rsmq.wire.cells import name_of_set
from rsmq.wire.keys import Namespace


def examine_cells(
    cells: Cells,
    queues: Iterable[str] | None = None,
    *,
    progress: Callable[[str, int], None] | None = None,
) -> Report:
    """
    Find faults of each cell of a set, and differences between the cells. Nothing is changed.

    ``Finding.cells`` has the cells of a finding. Faults of servers that several cells report are
    one finding. The queues of a cell that belongs to another set are not examined.

    Cost: that of ``examine`` for each cell, one after another; and for each queue and cell one
    round trip, or two if there are differences.

    Args:
        cells: a client of the set.
        queues: names of queues; None is all queues of each cell, listed or not.
        progress: as for ``examine``.

    Raises:
        QueueNotFound: nothing of a named queue exists in any cell.
        RedisError, OSError: no cell can be reached.
        MissingParameter, InvalidFormat, ResponseError: as for ``examine``.
    """
    return _CellExamination(cells, progress).run(None if queues is None else list(queues))


class _CellExamination:
    """One run of ``examine_cells``."""

    def __init__(self, cells: Cells, progress: Callable[[str, int], None] | None) -> None:
        self._clients: Sequence[CellClient] = cells.cells
        self._ns = name_of_set(self._clients[0].namespace.name)
        self._progress = progress
        self._failures: dict[int, Exception] = {}

    def run(self, queues: list[str] | None) -> Report:
        """Return the report on these queues; None is all queues."""
        findings = find_record_faults(self._ns, self._read_records(), len(self._clients))
        others = {cell for each in findings if each.code == "other-set" for cell in each.cells}
        reports = dict(self._examine_each(queues, others))
        if len(self._failures) == len(self._clients):
            raise self._failures[0]
        facts = self._read_queues(self._find_names(queues, reports), list(reports))
        for name in queues or ():
            if reports and name not in facts:
                raise QueueNotFound(name, self._ns)
        findings += _merge(reports)
        findings += self._compare(facts)
        findings[:0] = [
            make_finding("cell-unreachable", self._ns, cells=(cell,), detail=str(error))
            for cell, error in sorted(self._failures.items())
        ]
        messages = sum(report.messages for report in reports.values())
        return Report(self._ns, tuple(findings), len(facts), messages, len(self._clients))

    def _reachable(self) -> Iterator[tuple[int, CellClient]]:
        for cell, client in enumerate(self._clients):
            if cell not in self._failures:
                yield cell, client

    def _read_records(self) -> dict[int, CellRecord | None]:
        records = {}
        for cell, client in self._reachable():
            try:
                records[cell] = client.run(
                    claim_cell(client.namespace, "", cell, len(self._clients))
                )
            except UNREACHABLE as error:
                self._failures[cell] = error
        return records

    def _examine_each(
        self, queues: list[str] | None, others: set[int]
    ) -> Iterator[tuple[int, Report]]:
        """Yield the report of each cell that can be reached and belongs to the set."""
        for cell, client in self._reachable():
            if cell in others:
                continue
            names = queues
            while True:
                try:
                    yield cell, examination.examine(client, names, progress=self._progress)
                except QueueNotFound as error:
                    names = [name for name in names or () if name != error.value]
                except UNREACHABLE as error:
                    self._failures[cell] = error
                    break
                else:
                    break

    def _find_names(self, queues: list[str] | None, reports: dict[int, Report]) -> set[str]:
        """Return the names of queues: the named ones, or those listed or found in a cell."""
        if queues is not None:
            return set(queues)
        names = {name for cell in reports for name in self._clients[cell].list_queues() if name}
        found = {each.queue for report in reports.values() for each in report.findings}
        return names | {name for name in found if name is not None}

    def _read_queues(
        self, names: Iterable[str], cells: list[int]
    ) -> dict[str, dict[int, QueueFacts]]:
        """Return the facts of each queue that exists in a cell, by name and cell."""
        read = {name: self._read_facts(name, cells) for name in sorted(names)}
        return {name: facts for name, facts in read.items() if any(map(_exists, facts.values()))}

    def _read_facts(self, name: str, cells: list[int]) -> dict[int, QueueFacts]:
        found = {}
        for cell in cells:
            client = self._clients[cell]
            namespace = Namespace(client.namespace.name, strict_names=False)
            facts = read_queue_facts(client, namespace, name)
            if facts is not None:
                found[cell] = facts
        return found

    def _compare(self, queues: dict[str, dict[int, QueueFacts]]) -> list[Finding]:
        """
        Return the differences between cells.

        A call of another client may be in progress: a second check, a quarter of a second later,
        must find a difference again.
        """
        first = self._find_differences(queues)
        if not first:
            return []
        time.sleep(examination.RECHECK_SECONDS)
        found = {(each.code, each.queue) for each in first}
        differing = sorted({str(each.queue) for each in first})
        again = {name: self._read_facts(name, list(queues[name])) for name in differing}
        return [each for each in self._find_differences(again) if (each.code, each.queue) in found]

    def _find_differences(self, queues: dict[str, dict[int, QueueFacts]]) -> list[Finding]:
        return [
            finding
            for name, facts in queues.items()
            for finding in find_differences(self._ns, name, facts)
        ]


def _exists(facts: QueueFacts) -> bool:
    return facts.is_listed or facts.hash_kind != "none" or facts.id_count > 0


def _merge(reports: dict[int, Report]) -> list[Finding]:
    """Return the findings of all cells; faults of servers with the same text become one."""
    of_servers: dict[tuple[str, str], Finding] = {}
    of_cells: list[Finding] = []
    for cell, report in reports.items():
        for finding in report.findings:
            if finding.code not in SERVER_FAULTS:
                of_cells.append(replace(finding, cells=(cell,)))
                continue
            key = finding.code, finding.text
            found = of_servers.get(key, finding)
            of_servers[key] = replace(found, cells=(*found.cells, cell))
    return [*of_servers.values(), *of_cells]
