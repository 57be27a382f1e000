"""
The repairs of differences between cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from rsmq._sync.client import RSMQ
from rsmq.cells.records import find_mismatches, find_set_id
from rsmq.doctor.attribute_faults import find_missing_attributes
from rsmq.doctor.cell_faults import UNREACHABLE
from rsmq.doctor.finding import Finding
from rsmq.doctor.queue_faults import read_queue_facts
from rsmq.errors import RSMQError
from rsmq.model import QueueAttributes
from rsmq.operations.cells import CellRecord, claim_cell
from rsmq.operations.dead_letters import set_dead_letter_policy
from rsmq.operations.operation import Operation
from rsmq.operations.queues import (
    create_queue,
    get_queue_attributes,
    pause_queue,
    set_queue_attributes,
    set_queue_limits,
)
from rsmq.wire.keys import Namespace

#: The codes of the findings that are repaired here, in the order of the repairs.
SET_REPAIRS = ("no-cell-record", "missing-in-cells", "different-attributes", "different-policy")


def repair_difference(clients: Sequence[RSMQ[Any]], finding: Finding) -> Iterator[int]:
    """Repair a difference; yield 1 for each repaired cell, and 0 for one that can't be repaired."""
    if finding.queue is None:
        yield from _store_records(clients, finding)
        return
    for cell in finding.cells:
        yield _repair_queue(clients, cell, finding)


def _store_records(clients: Sequence[RSMQ[Any]], finding: Finding) -> Iterator[int]:
    """Store the missing records, as the first call of a client would do."""
    number = len(clients)
    records: dict[int, CellRecord | None] = {}
    for cell, client in enumerate(clients):
        with suppress(*UNREACHABLE):
            records[cell] = client.run(claim_cell(client.namespace, "", cell, number))
    set_id = find_set_id(records, number)
    if set_id is None or find_mismatches(records, number):
        return
    for cell in finding.cells:
        client = clients[cell]
        client.run(claim_cell(client.namespace, set_id, cell, number))
        yield 1


def _repair_queue(clients: Sequence[RSMQ[Any]], cell: int, finding: Finding) -> int:
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
        for operation in _plan_repair(finding.code, _namespace(client), name, attributes):
            client.run(operation)
    except RSMQError:  # a value that only a repair of the cell can change, or a queue that is gone
        return 0
    return 1


def _namespace(client: RSMQ[Any]) -> Namespace:
    """Return the namespace of a cell, in which any name of a queue is allowed."""
    return Namespace(client.namespace.name, strict_names=False)


def _has_queue(client: RSMQ[Any], name: str) -> bool:
    """Return whether a cell can be reached and has a queue."""
    try:
        facts = read_queue_facts(client, _namespace(client), name)
    except UNREACHABLE:
        return False
    return facts is not None and not find_missing_attributes(facts)


def _plan_repair(
    code: str, namespace: Namespace, name: str, attributes: QueueAttributes
) -> Iterator[Operation[Any]]:
    """Yield the operations that give a queue the attributes that it has in another cell."""
    vt, delay, maxsize = attributes.vt, attributes.delay, attributes.maxsize
    if code == "missing-in-cells":
        yield create_queue(namespace, name, vt=vt, delay=delay, maxsize=maxsize, exist_ok=True)
        if attributes.paused:
            yield pause_queue(namespace, name, pause=True)
        if attributes.max_running is not None or attributes.rate is not None:
            yield set_queue_limits(
                namespace, name, max_running=attributes.max_running, rate=attributes.rate
            )
    elif code == "different-attributes":
        yield set_queue_attributes(namespace, name, vt=vt, delay=delay, maxsize=maxsize)
    else:
        yield set_dead_letter_policy(
            namespace, name, attributes.dead_letter_queue, attributes.max_receives
        )
