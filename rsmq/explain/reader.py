# Generated from rsmq/explain/async_reader.py by scripts/generate-sync. Do not edit.
"""
Reads the facts of a queue or a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from redis.exceptions import ResponseError

from rsmq._sync.cells import Cells
from rsmq._sync.client import RSMQ
from rsmq.cells.totals import add_attributes
from rsmq.explain.observed import ObservedMessage, ObservedQueue, QueueRates
from rsmq.explain.operations import read_message_state, read_queue_state, read_rates
from rsmq.figures.operations import add_hidden
from rsmq.worker.operations import list_workers
from rsmq.worker.registry import WorkerInfo, parse_workers


def observe_message(rsmq: RSMQ[Any] | Cells, qname: str, id: str) -> ObservedMessage:
    """
    Return what is known of a message, from two round trips. Nothing is changed.

    In a set of cells the workers of all cells are read too. An id without the number of its cell is
    looked for in all cells.

    Args:
        rsmq: a synchronous client, or a set of cells.
        qname: the name of the queue.
        id: the id of the message, also of one that is not in the queue.

    Raises:
        QueueNotFound: the queue does not exist.
    """
    engine: Any = rsmq.engine
    cell, stored_id = engine.split_id(id)
    workers = _list_workers(engine)
    for each in range(engine.number) if cell is None else (cell,):
        client = engine.client(each)
        others = [worker for of_cell in workers if of_cell != each for worker in workers[of_cell]]
        facts: ObservedMessage = client.run(
            read_message_state(client.namespace, qname, stored_id, others)
        )
        if facts.visible_at_ms is not None or facts.size is not None or facts.dead is not None:
            break
    return replace(facts, id=id, queue=_add_rates(client, facts.queue))


def _list_workers(engine: Any) -> dict[int, list[WorkerInfo]]:
    """Return the workers of a set by cell: each is registered in one of them."""
    if engine.number == 1:
        return {}

    def read(client: Any) -> list[WorkerInfo]:
        try:
            return parse_workers(*(client.run(list_workers(client.namespace))))[1]
        except ResponseError:  # the user has no right to them
            return []

    by_cell: dict[int, list[WorkerInfo]] = engine.by_cell(read)
    return by_cell


def _add_rates(client: Any, facts: ObservedQueue) -> ObservedQueue:
    """Return the facts with the rates of the queue, if the user has the right to its history."""
    try:
        rates: QueueRates | None = client.run(read_rates(client.namespace, facts))
    except ResponseError:
        return facts
    return replace(facts, rates=rates)


def observe_queue(rsmq: RSMQ[Any] | Cells, qname: str) -> ObservedQueue:
    """
    Return what is known of a queue, from two round trips for each cell. Nothing is changed.

    Args:
        rsmq: a synchronous client, or a set of cells.
        qname: the name of the queue.

    Raises:
        QueueNotFound: the queue does not exist.
        PartlyDone: some cells can't be reached.
    """
    engine: Any = rsmq.engine

    def read(client: Any) -> ObservedQueue:
        facts: ObservedQueue = client.run(read_queue_state(client.namespace, qname))
        return _add_rates(client, facts)

    by_cell: Mapping[int, ObservedQueue] = engine.by_cell(read)
    return _add_queues(list(by_cell.values()))


def _add_queues(of_cells: list[ObservedQueue]) -> ObservedQueue:
    if len(of_cells) == 1:
        return of_cells[0]
    rates = [each.rates for each in of_cells if each.rates is not None]
    return ObservedQueue(
        of_cells[0].name,
        max(each.now_ms for each in of_cells),
        add_attributes([each.attributes for each in of_cells]),
        tuple(worker for each in of_cells for worker in each.workers),
        can_see_workers=all(each.can_see_workers for each in of_cells),
        rates=_sum_rates(rates) if len(rates) == len(of_cells) else None,
        hidden=add_hidden([each.hidden for each in of_cells if each.hidden is not None]),
    )


def _sum_rates(of_cells: list[QueueRates]) -> QueueRates:
    return QueueRates(
        sum(each.sent_per_minute for each in of_cells),
        sum(each.received_per_minute for each in of_cells),
        min(each.seconds for each in of_cells),
    )
