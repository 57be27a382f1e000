"""
The messages that a stream has not read yet, for the progress of its query.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rsmq.errors import QueueNotFound
from rsmq.spark.connections import PlacedQueue


@dataclass(slots=True)
class Backlog:
    """
    The messages of a stream's queues at one moment.

    Attributes:
        queues: by name, how many messages of a queue are visible and hidden. With cells these are
            the sums of all cells.
        oldest_age: seconds since the first visible message of any queue was sent; None if there is
            none, or if its id does not have the time.
    """

    queues: dict[str, dict[str, int]] = field(default_factory=dict)
    oldest_age: float | None = None

    @property
    def lag(self) -> int:
        """How many messages are visible: the stream could receive them now."""
        return sum(counts["visible"] for counts in self.queues.values())

    def describe(self) -> dict[str, Any]:
        """Return the values for the progress of a query."""
        return {
            "backlog": self.queues,
            "lag": self.lag,
            "oldestAgeSeconds": None if self.oldest_age is None else round(self.oldest_age, 3),
        }


def read_backlog(queues: Iterable[PlacedQueue]) -> Backlog:
    """
    Return the backlog of queues; queues that were deleted are left out.

    Raises:
        CellFailed: the server of a cell can't be reached.
    """
    backlog = Backlog()
    for queue in queues:
        server, name = queue.server, queue.keys.name
        with server.naming_cell():
            try:
                attributes = server.rsmq.get_queue_attributes(name)
                counts = backlog.queues.setdefault(name, {"visible": 0, "hidden": 0})
                counts["visible"] += attributes.visible_messages
                counts["hidden"] += attributes.hidden_messages
                if attributes.visible_messages:
                    _add_oldest(backlog, queue)
            except QueueNotFound:
                continue
    return backlog


def _add_oldest(backlog: Backlog, queue: PlacedQueue) -> None:
    for message in queue.server.rsmq.peek_messages(queue.keys.name, 0, 1):
        if message.sent_ms is not None:
            age = max(0.0, (queue.server.now_ms() - message.sent_ms) / 1000)
            backlog.oldest_age = max(age, backlog.oldest_age or 0.0)
