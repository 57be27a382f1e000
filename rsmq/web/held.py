"""
The messages that workers have in flight, and when they are visible again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rsmq.errors import RSMQError
from rsmq.web.client import Client
from rsmq.web.operations import held_messages
from rsmq.worker.operations import Receipt, list_in_flight

#: Messages that one script looks at.
_STEP = 500


@dataclass(frozen=True, slots=True)
class HeldMessage:
    """
    A message that is recorded as in flight with a worker.

    Attributes:
        visible_at_ms: Unix ms from which it is visible; None if it was settled, or received again.
        is_hidden: whether that is in the future.
    """

    queue: str
    id: str
    receive_count: int
    visible_at_ms: float | None
    is_hidden: bool


async def read_held(queues: Client, worker: str) -> list[HeldMessage]:
    """
    Return the messages that are recorded as in flight with a worker, by queue.

    Args:
        worker: its name.

    Raises:
        MissingParameter, InvalidFormat: the name is invalid.
    """
    by_queue = await queues.run_steps(list_in_flight(queues.namespace, worker))
    found: list[HeldMessage] = []
    for queue, receipts in sorted(by_queue.items()):
        for start in range(0, len(receipts), _STEP):
            step = receipts[start : start + _STEP]
            now_ms, scores = await _read_scores(queues, queue, step)
            found += [
                HeldMessage(queue, id, count, score, score is not None and score > now_ms)
                for (id, count), score in zip(step, scores, strict=True)
            ]
    return found


async def _read_scores(
    queues: Client, queue: str, receipts: Sequence[Receipt]
) -> tuple[int, Sequence[float | None]]:
    try:
        keys = queues.namespace.queue(queue)
    except RSMQError:  # a record of another program
        return 0, [None] * len(receipts)
    return await queues.run(held_messages(keys, receipts))
