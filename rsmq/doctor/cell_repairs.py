"""
``repair_cells``: the repairs of ``repair`` in each cell, and repairs of differences between cells.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import TypeAlias

from redis.exceptions import RedisError

from rsmq._sync.cell_client import CellClient
from rsmq._sync.cells import Cells
from rsmq.cells.records import find_mismatches, find_set_id
from rsmq.doctor.attribute_faults import find_missing_attributes
from rsmq.doctor.cell_faults import UNREACHABLE
from rsmq.doctor.finding import Finding
from rsmq.doctor.queue_faults import read_queue_facts
from rsmq.doctor.repairer import SET_REPAIRS, Repair, repair
from rsmq.errors import RSMQError
from rsmq.model import QueueAttributes
from rsmq.operations.cells import CellRecord, claim_cell
from rsmq.operations.dead_letters import set_dead_letter_policy
from rsmq.operations.queues import (
    create_queue,
    get_queue_attributes,
    pause_queue,
    set_queue_attributes,
)
from rsmq.wire.keys import Namespace

#: Repairs one cell: called with its client, its namespace, the queue's name, and the attributes of
#: the queue in the first cell that has it.
_RepairCell: TypeAlias = Callable[[CellClient, Namespace, str, QueueAttributes], None]


def repair_cells(
    cells: Cells,
    findings: Iterable[Finding],
    *,
    also: Collection[str] = (),
    progress: Callable[[Finding, int], None] | None = None,
) -> list[Repair]:
    """
    Repair the faults that ``examine_cells`` found. Idempotent; may be interrupted at any point.

    Faults of one cell are repaired there, as by ``repair``. Then a queue that cells lack is created
    there with the attributes of the first cell that has it, and is paused if it is paused there.
    Attributes and policies that differ are set to those of the first cell that has the queue.

    Args:
        cells: a client of the set.
        findings: the faults. Those that no repair is available for are skipped.
        also: as for ``repair``.
        progress: as for ``repair``.

    Returns:
        The results, in the order of the repairs. ``Repair.error`` says which of them failed.

    Raises:
        InvalidFormat: as for ``repair``.
    """
    chosen = list(findings)
    repairs = repair(cells.cells[0], (), also=also)  # checks the names
    for cell, client in enumerate(cells.cells):
        of_cell = [
            each for each in chosen if each.code not in SET_REPAIRS and each.cells == (cell,)
        ]
        if of_cell:
            repairs += repair(client, of_cell, also=also, progress=progress)
    of_set = sorted(
        (each for each in chosen if each.code in SET_REPAIRS),
        key=lambda each: SET_REPAIRS.index(each.code),
    )
    return repairs + [_repair(cells.cells, each) for each in of_set]


def _repair(clients: Collection[CellClient], finding: Finding) -> Repair:
    done = 0
    try:
        if finding.queue is None:
            return Repair(finding, _store_records(list(clients), finding))
        for cell in finding.cells:
            done += _repair_queue(list(clients), cell, finding)
    except RedisError as error:
        return Repair(finding, done, error)
    return Repair(finding, done)


def _store_records(clients: list[CellClient], finding: Finding) -> int:
    """Store the missing records, as the first call of a client would do."""
    number = len(clients)
    records: dict[int, CellRecord | None] = {}
    for cell, client in enumerate(clients):
        with suppress(*UNREACHABLE):
            records[cell] = client.run(claim_cell(client.namespace, "", cell, number))
    set_id = find_set_id(records, number)
    if set_id is None or find_mismatches(records, number):
        return 0
    for cell in finding.cells:
        client = clients[cell]
        client.run(claim_cell(client.namespace, set_id, cell, number))
    return len(finding.cells)


def _repair_queue(clients: list[CellClient], cell: int, finding: Finding) -> int:
    """Repair a queue in one cell; return 1, or 0 if that is not possible now."""
    name = str(finding.queue)
    others = [each for index, each in enumerate(clients) if index not in finding.cells]
    reference = next((each for each in others if _has_queue(each, name)), None)
    client = clients[cell]
    facts = read_queue_facts(client, _namespace(client), name)
    if reference is None or facts is None:
        return 0
    if (not find_missing_attributes(facts)) is (finding.code == "missing-in-cells"):
        return 0  # changed since the examination
    try:
        attributes = reference.run(get_queue_attributes(_namespace(reference), name))
        _REPAIRS[finding.code](client, _namespace(client), name, attributes)
    except RSMQError:  # a value that only a repair of the cell can change, or a queue that is gone
        return 0
    return 1


def _namespace(client: CellClient) -> Namespace:
    """Return the namespace of a cell, in which any name of a queue is allowed."""
    return Namespace(client.namespace.name, strict_names=False)


def _has_queue(client: CellClient, name: str) -> bool:
    """Return whether a cell can be reached and has a queue."""
    try:
        facts = read_queue_facts(client, _namespace(client), name)
    except UNREACHABLE:
        return False
    return facts is not None and not find_missing_attributes(facts)


def _create(
    client: CellClient, namespace: Namespace, name: str, attributes: QueueAttributes
) -> None:
    client.run(
        create_queue(
            namespace,
            name,
            vt=attributes.vt,
            delay=attributes.delay,
            maxsize=attributes.maxsize,
            exist_ok=True,
        )
    )
    if attributes.paused:
        client.run(pause_queue(namespace, name, pause=True))


def _set_attributes(
    client: CellClient, namespace: Namespace, name: str, attributes: QueueAttributes
) -> None:
    client.run(
        set_queue_attributes(
            namespace,
            name,
            vt=attributes.vt,
            delay=attributes.delay,
            maxsize=attributes.maxsize,
        )
    )


def _set_policy(
    client: CellClient, namespace: Namespace, name: str, attributes: QueueAttributes
) -> None:
    client.run(
        set_dead_letter_policy(
            namespace, name, attributes.dead_letter_queue, attributes.max_receives
        )
    )


_REPAIRS: dict[str, _RepairCell] = {
    "missing-in-cells": _create,
    "different-attributes": _set_attributes,
    "different-policy": _set_policy,
}
