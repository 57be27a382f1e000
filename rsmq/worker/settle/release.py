"""
The release of messages that are known by their receipts only.
"""

from __future__ import annotations

from typing import Any, Literal

from rsmq.errors.guarded_log import get_logger
from rsmq.errors.printable import format_count
from rsmq.worker.connection import WorkerConnection
from rsmq.worker.operations import (
    Receipt,
    Settlement,
    count_unbegun,
    list_in_flight,
    settle_messages,
)
from rsmq.worker.settle.settler import MESSAGES_PER_STEP

_log = get_logger("rsmq.worker")


def release_receipts(
    connection: WorkerConnection,
    receipts_by_queue: dict[str, list[Receipt]],
    *,
    are_begun: bool,
    hidden_ms: int = 0,
) -> int:
    """
    Release messages by their receipts, and delete the records of their being in flight.

    Args:
        connection: that of the worker that has the name now.
        are_begun: whether these receives count as attempts; False if they began no handler call.
        hidden_ms: how long they stay hidden after that, ms.

    Returns:
        How many were released: no other consumer has received or deleted them since.
    """
    released, rsmq = 0, connection.client
    for queue, receipts in receipts_by_queue.items():
        keys = rsmq.namespace.queue(queue)
        for at in range(0, len(receipts), MESSAGES_PER_STEP):
            step = receipts[at : at + MESSAGES_PER_STEP]
            groups: dict[int, list[Any]] = {}
            action: Literal["release", "unbegun"] = "release" if are_begun else "unbegun"
            if are_begun:
                for id, count in step:
                    groups.setdefault(count, []).append(id)
            else:
                earlier = rsmq.run(count_unbegun(keys, [id for id, _ in step]))
                for (id, count), number in zip(step, earlier, strict=True):
                    groups.setdefault(count, []).append((id, number + 1))
            settled = [Settlement(keys, action, count, ids) for count, ids in groups.items()]
            if hidden_ms:
                settled += [
                    Settlement(keys, "hide", count, [(id, hidden_ms)]) for id, count in step
                ]
            results = rsmq.run(settle_messages(connection.identity, settled))
            released += results[: len(step)].count(b"1")
    return released


def release_predecessor(connection: WorkerConnection) -> bool:
    """
    Release the messages that a dead worker of the same name had in flight.

    Args:
        connection: that of the worker that has the name now.

    Returns:
        Whether it had messages in flight.
    """
    client, name = connection.client, connection.name
    in_flight = client.run_steps(list_in_flight(client.namespace, name))
    released = release_receipts(connection, in_flight, are_begun=True)
    if released:
        _log.warning(
            "worker %s: its predecessor died with %s, now due again", name, format_count(released)
        )
    return any(in_flight.values())
