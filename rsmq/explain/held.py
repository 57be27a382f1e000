"""
The messages that workers have in flight, and when they are visible again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rsmq.figures.reading import read_receipts_in_steps
from rsmq.operations.operation import Steps
from rsmq.wire.keys import Namespace
from rsmq.wire.workers import WorkerInfo
from rsmq.worker.operations import list_in_flight

#: Dead workers that are looked at.
_MAX_WORKERS = 20


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


def choose_dead(workers: Iterable[WorkerInfo]) -> list[str]:
    """Return the names of the workers that died last, of which it is read what they had."""
    dead = [each for each in workers if not each.alive]
    # One may have received its only message after its last heartbeat; the others come first.
    dead.sort(key=lambda each: (not any(each.queues.values()), -each.seen_ms))
    return [each.name for each in dead[:_MAX_WORKERS]]


def read_held(namespace: Namespace, workers: Iterable[str]) -> Steps[dict[str, list[HeldMessage]]]:
    """
    Return by worker the messages that are recorded as in flight with it, by queue.

    Args:
        workers: their names.

    Raises:
        MissingParameter, InvalidFormat: a name is invalid.
    """
    recorded = {}
    for worker in workers:
        by_queue = yield from list_in_flight(namespace, worker)
        recorded[worker] = [
            (queue, receipt) for queue, receipts in sorted(by_queue.items()) for receipt in receipts
        ]
    receipts = [each for found in recorded.values() for each in found]
    read = yield from read_receipts_in_steps(namespace, receipts)

    def held_message(queue: str, receipt: tuple[str, int]) -> HeldMessage:
        now_ms, score = read.get((queue, receipt), (0, None))
        return HeldMessage(queue, *receipt, score, score is not None and score > now_ms)

    return {worker: [held_message(*each) for each in found] for worker, found in recorded.items()}
