"""
The figures of queues that ``rsmq top`` shows.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from rsmq.cli.app.errors import ErrorReport, describe_partly_done, explain_unreadable
from rsmq.cli.app.queue_names import expand_patterns
from rsmq.errors import PartlyDone, QueueNotFound, RSMQError
from rsmq.model import QueueAttributes

if TYPE_CHECKING:
    from rsmq._sync.client import RSMQ


@dataclass(frozen=True, slots=True)
class Figures:
    """
    The figures of a queue. An unknown figure is None.

    Attributes:
        visible: the number of visible messages.
        in_flight: the number of messages that are received and hidden, without retrying ones.
        retrying: the number of messages that wait for a retry.
        delayed: the number of messages that are hidden and were never received, without those held
            back.
        held_back: the number of messages that wait for another message of their group.
        dead: the number of messages in its dead-letter queue.
        sent_per_second: messages sent per second since the previous reading.
        received_per_second: messages received per second since the previous reading, with pops and
            repeated receives.
        oldest_seconds: the seconds since the oldest message was sent.
        due_seconds: the seconds since the message that is received next became visible.
        about: whether in_flight, retrying, delayed and oldest_seconds are estimates.
        paused: whether the queue is paused for workers.
    """

    queue: str
    visible: int
    in_flight: int
    retrying: int
    delayed: int
    held_back: int
    dead: int | None
    sent_per_second: float | None
    received_per_second: float | None
    oldest_seconds: float | None
    due_seconds: float | None
    dead_letter_queue: str | None
    about: bool
    paused: bool


#: The figures by which queues can be sorted.
SORTS = tuple(each.name for each in fields(Figures))[:-3]


class FiguresReader:
    """A reader of the figures of queues, which computes rates from two readings."""

    def __init__(self, rsmq: RSMQ[Any], queues: tuple[str, ...]) -> None:
        """
        Make a reader; it reads nothing yet.

        Args:
            queues: names of queues, and patterns as of a shell. Each reading reads the listed
                queues that match a pattern then. If empty, it reads all listed queues.
        """
        from rsmq.figures import QueueReader, RatesReader  # noqa: PLC0415 - takes time

        self._queues = queues
        self._reader = QueueReader(rsmq)
        self._number_of_cells = len(rsmq.cells)
        self._rates = RatesReader()
        #: The listed queues that the last reading could not read, each with the reason.
        self.unreadable: dict[str, str] = {}

    def describe_failed_cells(self) -> ErrorReport | None:
        """Return the report of the cells that the last reading left out; None without one."""
        failures = self._reader.failures
        if not failures:
            return None
        return describe_partly_done([PartlyDone(failures, self._number_of_cells, ())])

    def read(self) -> list[Figures]:
        """
        Read the figures of the queues.

        Raises:
            QueueNotFound: a queue that was named does not exist.
        """
        attributes_by_queue: dict[str, QueueAttributes | None] = {}
        self.unreadable = {}
        self._reader.begin_round(self._queues)
        for queue in expand_patterns(self._reader, self._queues) or self._reader.list_queues():
            attributes = self._read_attributes(attributes_by_queue, queue)
            if attributes is None and queue in self._queues:
                raise QueueNotFound(queue, self._reader.clients()[0].namespace.name)
        return [
            self._make_figures(attributes_by_queue, queue, each)
            for queue, each in list(attributes_by_queue.items())
            if each is not None
        ]

    def _read_attributes(
        self, attributes_by_queue: dict[str, QueueAttributes | None], queue: str
    ) -> QueueAttributes | None:
        from redis.exceptions import RedisError  # noqa: PLC0415 - takes time

        if queue not in attributes_by_queue:
            try:
                attributes_by_queue[queue] = self._reader.get_queue_attributes(queue)
            except QueueNotFound:  # deleted meanwhile, or listed and never created
                attributes_by_queue[queue] = None
            except (RSMQError, RedisError) as error:
                reason = explain_unreadable(error)
                if reason is None or queue in self._queues:
                    raise
                attributes_by_queue[queue] = None
                self.unreadable[queue] = reason
        return attributes_by_queue[queue]

    def _make_figures(
        self,
        attributes_by_queue: dict[str, QueueAttributes | None],
        queue: str,
        attributes: QueueAttributes,
    ) -> Figures:
        rates = self._rates.note(queue, attributes)
        gauges = self._reader.read(queue, attributes)
        target = attributes.dead_letter_queue
        dead = self._read_attributes(attributes_by_queue, target) if target else None
        return Figures(
            queue,
            attributes.visible_messages,
            gauges.in_flight,
            gauges.retrying,
            gauges.delayed,
            gauges.held_back,
            None if dead is None else dead.messages,
            None if rates is None else rates.sent,
            None if rates is None else rates.received,
            gauges.oldest_seconds,
            gauges.due_seconds,
            target,
            gauges.is_estimate,
            attributes.paused,
        )


def sum_figures(read: list[Figures]) -> dict[str, Any]:
    """Return the sums over queues, and the largest of their ages."""
    sums: dict[str, Any] = {}
    for name in SORTS[1:]:
        # A dead-letter queue that several queues share counts once.
        counted_once = (
            {each.dead_letter_queue: each for each in read}.values() if name == "dead" else read
        )
        values = [value for each in counted_once if (value := getattr(each, name)) is not None]
        is_age = name in {"oldest_seconds", "due_seconds"}
        sums[name] = (max if is_age else sum)(values) if values else None
    return sums


def sort_figures(read: list[Figures], by: str) -> list[Figures]:
    """Sort figures: names ascending, numbers descending, unknown numbers like 0."""
    if by == "queue":
        return sorted(read, key=lambda each: each.queue)
    return sorted(read, key=lambda each: (-(getattr(each, by) or 0), each.queue))
