"""
The workers that have messages in flight, for ``rsmq peek`` and ``rsmq get``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rsmq.model import StoredMessage

if TYPE_CHECKING:
    from rsmq._sync.cells import Cells
    from rsmq._sync.client import RSMQ

#: A receipt: id and receive count.
_Receipt = tuple[str, int]


def find_holders(rsmq: RSMQ[Any] | Cells, messages: Sequence[StoredMessage]) -> dict[str, str]:
    """
    Return by message id the name of the worker that has the message in flight.

    It is read after the messages, worker by worker, and only if a message is in flight. Consumers
    that are not workers are unknown, and so are all if the user lacks the right to their records.

    Args:
        rsmq: the client that has read the messages.
        messages: messages of one queue.
    """
    receipts = {
        (message.id, message.receive_count) for message in messages if message.state == "in_flight"
    }
    if not receipts:
        return {}
    from redis.exceptions import ResponseError  # noqa: PLC0415 - takes time

    queue, engine = messages[0].queue, rsmq.engine
    with suppress(ResponseError):
        names = {name for each in engine.by_cell(_list_names).values() for name in each}
        by_cell = engine.by_cell(lambda client: _list_receipts(client, queue, sorted(names)))
        found = {
            (engine.show_id(cell, id), count): name
            for cell, of_cell in by_cell.items()
            for (id, count), name in of_cell.items()
        }
        return {receipt[0]: found[receipt] for receipt in receipts & found.keys()}
    return {}


def _list_names(rsmq: RSMQ[Any]) -> list[str]:
    from rsmq.worker.registry import list_workers  # noqa: PLC0415 - takes time

    return [worker.name for worker in list_workers(rsmq)]


def _list_receipts(rsmq: RSMQ[Any], queue: str, names: Sequence[str]) -> dict[_Receipt, str]:
    """Return the messages of a queue that workers have in flight, each with the worker's name."""
    from rsmq.worker.operations import list_in_flight  # noqa: PLC0415 - takes time

    return {
        receipt: name
        for name in names
        for receipt in rsmq.run_steps(list_in_flight(rsmq.namespace, name)).get(queue, ())
    }
