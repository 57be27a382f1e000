"""
Reads what happens in many queues, in batches, and in all cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from redis.exceptions import ResponseError

from rsmq.explain.observed import RepeatedReceives
from rsmq.history.records import add_histories
from rsmq.operations.operation import Operation
from rsmq.transport.retry import is_limited_to_keys
from rsmq.web.activity.operations import (
    QueueActivity,
    QueueBacklog,
    QueueRate,
    queue_activities,
    queue_rates,
    queue_states,
)
from rsmq.web.client import Client
from rsmq.web.each_queue import read_each
from rsmq.wire.keys import Namespace

#: Queues that one script reads: a state takes 3 to 15 µs of Redis's time, an activity 5, rates 3.
_STATES_STEP, _STEP, _RATES_STEP = 150, 50, 150


async def read_states(
    queues: Client, names: Iterable[str], fresh_seconds: float
) -> dict[str, QueueBacklog]:
    """
    Return what waits in those queues that exist.

    Args:
        fresh_seconds: messages that became visible so many seconds ago or later are counted.
    """

    def of_cell(cell: int, found: QueueBacklog) -> QueueBacklog:
        shown = found.repeated.with_shown_id(partial(queues.engine.show_id, cell))
        return replace(found, repeated=shown)

    of_cells = await read_each(
        queues, names, partial(queue_states, fresh_seconds=fresh_seconds),
        step=_STATES_STEP, of_cell=of_cell,
    )  # fmt: skip
    return {name: _add_states(found) for name, found in of_cells.items()}


def _add_states(of_cells: Sequence[QueueBacklog]) -> QueueBacklog:
    first = of_cells[0]
    if len(of_cells) == 1:
        return first
    return QueueBacklog(
        first.name,
        sum(each.messages for each in of_cells),
        sum(each.visible for each in of_cells),
        _earliest(each.visible_since_ms for each in of_cells),
        sum(each.fresh for each in of_cells),
        _earliest(each.fresh_since_ms for each in of_cells),
        first.dead_letter_queue,
        _earliest(each.paused_ms for each in of_cells),
        first.vt,
        RepeatedReceives.worst_of(each.repeated for each in of_cells),
        any(each.has_reasons for each in of_cells),
        _sum([each.sent for each in of_cells]),
        _sum([each.received for each in of_cells]),
        _earliest(each.created for each in of_cells),
        max((each.modified for each in of_cells if each.modified is not None), default=None),
        max((each.resumed_ms for each in of_cells if each.resumed_ms is not None), default=None),
    )


def _earliest(times: Iterable[float | None]) -> float | None:
    return min((each for each in times if each is not None), default=None)


async def read_activities(
    queues: Client, targets: Mapping[str, str | None]
) -> dict[str, QueueActivity]:
    """
    Return what happens in queues; without those that can't be read.

    Args:
        targets: the queues, each with the dead-letter queue of its policy, or None.
    """

    def read(namespace: Namespace, qnames: Sequence[str]) -> Operation[dict[str, QueueActivity]]:
        return queue_activities(namespace, {name: targets[name] for name in qnames})

    try:
        of_cells = await read_each(queues, targets, read, step=_STEP)
    except ResponseError as error:
        if not is_limited_to_keys(error):
            raise
        return {}  # the user may not read histories
    return {name: _add_activities(found) for name, found in of_cells.items()}


async def read_rates(queues: Client, names: Iterable[str]) -> dict[str, QueueRate]:
    """Return the rates of those queues of which they are known."""
    try:
        of_cells = await read_each(queues, names, queue_rates, step=_RATES_STEP)
    except ResponseError as error:
        if not is_limited_to_keys(error):
            raise
        return {}  # the user may not read histories
    return {
        name: QueueRate(
            sum(each.sent_per_second for each in found),
            sum(each.received_per_second for each in found),
        )
        for name, found in of_cells.items()
    }


def _add_activities(of_cells: Sequence[QueueActivity]) -> QueueActivity:
    if len(of_cells) == 1:
        return of_cells[0]
    waits = [each.waiting_seconds for each in of_cells if each.waiting_seconds is not None]
    return QueueActivity(
        max(waits, default=None),
        _sum([each.dead_letters for each in of_cells]),
        any(each.has_reasons for each in of_cells),
        _sum([each.sent_per_second for each in of_cells]),
        _sum([each.received_per_second for each in of_cells]),
        _sum([each.sent_since for each in of_cells]),
        _sum([each.received_since for each in of_cells]),
        add_histories([each.hour for each in of_cells]),
    )


def _sum(values: Sequence[Any]) -> Any:
    known = [each for each in values if each is not None]
    return sum(known) if known else None
