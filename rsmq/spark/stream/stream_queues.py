"""
The queues of a stream, which a pattern may find while the stream runs, and their backlog.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rsmq.errors import QueueNotFound
from rsmq.spark.connections import (
    PlacedQueue,
    SparkServer,
    find_placed_queue,
    make_label,
    make_queue_not_found,
)
from rsmq.spark.read.source_options import SourceOptions

log = logging.getLogger(__name__)

#: How long the list of a stream's queues is reused before they are listed again.
_LIST_SECONDS = 10.0


class StreamQueues:
    """The queues of a stream in each cell, without its own dead-letter queue."""

    def __init__(
        self,
        servers: Sequence[SparkServer],
        source: SourceOptions,
        dead_letter_queue: str | None,
        note_listed: Callable[[list[PlacedQueue]], None],
        *,
        may_lack: bool,
    ) -> None:
        """
        List nothing.

        Args:
            servers: the server of each cell, or the only one.
            dead_letter_queue: the dead-letter queue of the stream; None if it has none.
            note_listed: is called with the queues whenever they were listed.
            may_lack: whether the stream continues without queues that the options name and that do
                not exist. They are listed again, as those of a pattern are.
        """
        self._servers = servers
        self._source = source
        self._dead_letter_queue = dead_letter_queue
        self._note_listed = note_listed
        self._may_lack = may_lack
        self._is_complete = False
        self._queues: list[PlacedQueue] = []
        self._listed_at = float("-inf")

    def get(self) -> list[PlacedQueue]:
        """Return the queues. Lists them again after 10 seconds, if others may exist then."""
        if not self._is_complete and time.monotonic() - self._listed_at > _LIST_SECONDS:
            queues = [
                PlacedQueue(server, keys)
                for server in self._servers
                for keys in server.find_queues(self._source, may_lack=self._may_lack)
                if keys.name != self._dead_letter_queue
            ]
            self._note_listed(queues)
            if self._listed_at == float("-inf"):
                self._warn_of_missing(queues)
            self._queues, self._listed_at = queues, time.monotonic()
            wanted = len(self._source.queues) * len(self._servers)
            self._is_complete = self._source.pattern is None and len(queues) == wanted
        return self._queues

    def _warn_of_missing(self, queues: list[PlacedQueue]) -> None:
        found = {queue.label for queue in queues}
        for server in self._servers:
            for name in self._source.queues:
                label = make_label(server.cell, name)
                if label not in found:
                    log.warning("Queue %s does not exist. The query starts without it.", label)

    def find(self, labels: Iterable[str]) -> list[PlacedQueue]:
        """Return the queues of these labels, which an offset names."""
        return [find_placed_queue(self._source.connection, label) for label in labels]

    def remove(self, queue: PlacedQueue) -> None:
        """
        Leave a deleted queue out from now on.

        Raises:
            QueueNotFound: the options name the queue, and ``failOnDataLoss`` is true.
        """
        if self._source.pattern is None:
            if not self._may_lack:
                raise make_queue_not_found(queue.keys.name, queue.server.namespace.name)
            log.warning("Queue %s was deleted. The query continues without it.", queue.label)
            self._is_complete = False
        self._queues = [each for each in self._queues if each != queue]

    def have_visible(self, latest_ms: int | None) -> bool:
        """Return whether messages became visible until a Unix time in ms, or until now."""
        for queue in self.get():
            with queue.server.naming_cell():
                until = latest_ms or queue.server.now_ms()
                if queue.server.call("ZCOUNT", queue.keys.zset, "-inf", until):
                    return True
        return False


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
