# Generated from rsmq/explain/async_reader.py by scripts/generate-sync. Do not edit.
"""
Reads the facts of a queue or a message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from redis.exceptions import ResponseError

from rsmq._sync.client import RSMQ
from rsmq.cells.totals import add_attributes
from rsmq.explain.causes import has_no_trace
from rsmq.explain.observed import ObservedMessage, ObservedQueue, QueueRates, RepeatedReceives
from rsmq.explain.operations import (
    find_in_trash,
    read_holders,
    read_message_state,
    read_queue_state,
    read_rates,
)
from rsmq.figures.operations import add_hidden
from rsmq.model import StoredMessage
from rsmq.trash.deletion import Deletion, DeletionState, join_deletions
from rsmq.trash.operations import read_trash
from rsmq.wire.workers import WorkerInfo
from rsmq.worker.operations import list_workers
from rsmq.worker.registry import parse_workers

_IDS_PER_STEP = 1000


def observe_message(rsmq: RSMQ[Any], qname: str, id: str) -> ObservedMessage:
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
    # Each worker is registered in one cell of a set.
    workers = _list_workers(engine) if engine.number > 1 else {}
    for each in range(engine.number) if cell is None else (cell,):
        client = engine.client(each)
        others = [
            worker
            for of_cell in workers.keys() - {each}
            for worker in workers[of_cell]
            if qname in worker.queues
        ]
        facts: ObservedMessage = client.run(
            read_message_state(client.namespace, qname, stored_id, others)
        )
        if facts.visible_at_ms is not None or facts.size is not None or facts.dead is not None:
            break
    if has_no_trace(facts):
        return replace(facts, id=id, deletion=_find_deletion(client, qname, stored_id))
    facts = facts.with_shown_ids(id, partial(engine.show_id, each))
    return replace(facts, queue=_add_rates(client, facts.queue))


def find_holders(rsmq: RSMQ[Any], messages: Sequence[StoredMessage[Any]]) -> dict[str, str]:
    """
    Return by the id of a message the name of the worker that has it in flight.

    It is read after the messages, and only if one is in flight: a list of workers, and one command
    for each of them. Consumers that are not workers are unknown, and so are all if the user lacks
    the right to their records.

    Args:
        rsmq: the client, or set of cells, that has read the messages.
        messages: messages of one queue.
    """
    engine: Any = rsmq.engine
    by_cell: dict[int, dict[str, StoredMessage[Any]]] = {}
    for message in messages:
        cell, stored_id = engine.split_id(message.id)
        if message.state == "in_flight" and cell is not None:
            by_cell.setdefault(cell, {})[stored_id] = message
    if not by_cell:
        return {}
    workers = _list_workers(engine)
    names = sorted({each.name for of_cell in workers.values() for each in of_cell})
    holders: dict[str, str] = {}
    for cell, of_cell in by_cell.items():
        client = engine.client(cell)
        ids = list(of_cell)
        for at in range(0, len(ids) if names else 0, _IDS_PER_STEP):
            step = ids[at : at + _IDS_PER_STEP]
            receipts = [(id, of_cell[id].receive_count) for id in step]
            try:
                found = client.run(
                    read_holders(client.namespace, messages[0].queue, names, receipts)
                )
            except ResponseError:  # the user has no right to them
                return {}
            holders |= {of_cell[id].id: name for id, name in found.items()}
    return holders


def _find_purge(client: Any, facts: ObservedQueue) -> Deletion | None:
    """Return the last purge of a queue, if it has removed messages and can be undone."""
    try:
        _, deletions = client.run(read_trash(client.namespace))
    except ResponseError:  # the user has no right to the trash
        return None
    return next((each for each in deletions if each.is_open_purge(facts.name, facts.now_ms)), None)


def _find_deletion(client: Any, qname: str, id: str) -> Deletion | None:
    """Return the deletion that has removed a message, if it can be undone."""
    try:
        _, deletions = client.run(read_trash(client.namespace))
        kept = [
            each for each in deletions if each.queue == qname and each.state is DeletionState.KEPT
        ]
        place = client.run(find_in_trash(client.namespace, kept, id)) if kept else None
    except ResponseError:  # the user has no right to the trash
        return None
    return None if place is None else kept[place]


def _list_workers(engine: Any) -> dict[int, list[WorkerInfo]]:
    """Return the workers by cell."""

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


def observe_queue(rsmq: RSMQ[Any], qname: str) -> ObservedQueue:
    """
    Return what is known of a queue, from two round trips for each cell, and three if it is empty.

    Nothing is changed.

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
        if not facts.attributes.messages:
            facts = replace(facts, purge=_find_purge(client, facts))
        return _add_rates(client, facts)

    by_cell: Mapping[int, ObservedQueue] = engine.by_cell(read)
    return _add_queues(
        [
            replace(each, repeated=each.repeated.with_shown_id(partial(engine.show_id, cell)))
            for cell, each in by_cell.items()
        ]
    )


def _add_queues(of_cells: list[ObservedQueue]) -> ObservedQueue:
    if len(of_cells) == 1:
        return of_cells[0]
    rates = [each.rates for each in of_cells if each.rates is not None]
    purges = [each.purge for each in of_cells if each.purge is not None]
    last = max(purges, key=lambda each: each.deleted_ms, default=None)
    limits = [each.limit for each in of_cells if each.limit is not None]
    return ObservedQueue(
        of_cells[0].name,
        max(each.now_ms for each in of_cells),
        add_attributes([each.attributes for each in of_cells]),
        tuple(worker for each in of_cells for worker in each.workers),
        can_see_workers=all(each.can_see_workers for each in of_cells),
        rates=_sum_rates(rates) if len(rates) == len(of_cells) else None,
        hidden=add_hidden([each.hidden for each in of_cells if each.hidden is not None]),
        limit=min(limits) if len(limits) == len(of_cells) else None,
        purge=last and join_deletions(each for each in purges if each.id == last.id),
        repeated=RepeatedReceives.worst_of(each.repeated for each in of_cells),
        resumed_ms=max(
            (each.resumed_ms for each in of_cells if each.resumed_ms is not None), default=None
        ),
    )


def _sum_rates(of_cells: list[QueueRates]) -> QueueRates:
    last = [each.last for each in of_cells if each.last is not None]
    return QueueRates(
        sum(each.sent_per_minute for each in of_cells),
        sum(each.received_per_minute for each in of_cells),
        min(each.seconds for each in of_cells),
        _sum_rates(last) if len(last) == len(of_cells) else None,
    )
