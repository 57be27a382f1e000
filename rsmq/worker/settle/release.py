"""
The release of messages that are known by their receipts only.
"""

from __future__ import annotations

from typing import Any, Literal

from rsmq.worker.operations import Receipt, Settlement, count_unbegun, settle_messages
from rsmq.worker.settle.settler import MESSAGES_PER_STEP
from rsmq.worker.state.lane import Cell


def release_receipts(
    cell: Cell,
    receipts_by_queue: dict[str, list[Receipt]],
    *,
    are_begun: bool,
    hidden_ms: int = 0,
) -> int:
    """
    Release messages by their receipts, and delete the records of their being in flight.

    Args:
        cell: the cell of the queues, with the worker that has the name now.
        are_begun: whether these receives count as attempts; False if they began no handler call.
        hidden_ms: how long they stay hidden after that, ms.

    Returns:
        How many were released: no other consumer has received or deleted them since.
    """
    released, rsmq = 0, cell.client
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
            results = rsmq.run(settle_messages(cell.identity, settled))
            released += results[: len(step)].count(b"1")
    return released
