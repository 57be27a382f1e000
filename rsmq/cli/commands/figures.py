"""
The figures of queues that ``rsmq top`` shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from rsmq.cli.app.errors import ErrorReport, Failed, describe_error, explain_unreadable
from rsmq.cli.app.output import format_text
from rsmq.cli.app.queue_names import expand_patterns
from rsmq.errors import QueueNotFound, RSMQError
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
        ns: the namespace.
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
    ns: str


#: The figures by which queues can be sorted.
SORTS = tuple(each.name for each in fields(Figures))[:-4]


class FiguresReader:
    """A reader of the figures of queues of a namespace; rates are those of two readings."""

    def __init__(self, rsmq: RSMQ[Any], queues: tuple[str, ...]) -> None:
        """
        Make a reader; it reads nothing yet.

        Args:
            queues: names of queues, and patterns as of a shell. Each reading reads the listed
                queues that match a pattern then. If empty, it reads all listed queues.
        """
        from rsmq.figures import QueueReader, RatesReader  # noqa: PLC0415 - takes time

        self._ns = rsmq.namespace.name
        self._queues = queues
        self._reader = QueueReader(rsmq)
        self._rates = RatesReader()
        #: The listed queues that the last reading could not read, each with the reason.
        self.unreadable: dict[str, str] = {}

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
                raise QueueNotFound(queue, self._ns)
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
            gauges.hidden.in_flight,
            gauges.hidden.retrying,
            gauges.hidden.delayed,
            gauges.hidden.held_back,
            None if dead is None else dead.messages,
            None if rates is None else rates.sent,
            None if rates is None else rates.received,
            gauges.oldest_seconds,
            gauges.due_seconds,
            target,
            gauges.is_estimate,
            attributes.paused,
            self._ns,
        )


class NamespacesReader:
    """
    A reader of the figures of queues in one or more namespaces.

    Attributes:
        failures: by namespace, why the last reading left it out.
    """

    def __init__(self, clients: Sequence[RSMQ[Any]], queues: tuple[str, ...]) -> None:
        """
        Make a reader, as ``FiguresReader``.

        Args:
            clients: a client of each namespace.
            queues: names of queues, and patterns.
        """
        self.failures: dict[str, ErrorReport] = {}
        self._readers = {each.namespace.name: FiguresReader(each, queues) for each in clients}

    @property
    def has_several(self) -> bool:
        """Return whether there are several namespaces."""
        return len(self._readers) > 1

    @property
    def unreadable(self) -> dict[str, str]:
        """The listed queues that the last reading could not read, each with the reason."""
        return {
            f"{ns}: {queue}" if self.has_several else queue: reason
            for ns, reader in self._readers.items()
            for queue, reason in reader.unreadable.items()
        }

    def read(self) -> list[Figures]:
        """
        Read the figures of the queues; leave out namespaces that fail.

        Raises:
            Failed, RSMQError, RedisError: that of the first namespace, if all fail.
        """
        from redis.exceptions import RedisError  # noqa: PLC0415 - takes time

        figures: list[Figures] = []
        errors: list[Exception] = []
        self.failures = {}
        for ns, reader in self._readers.items():
            try:
                figures += reader.read()
            except (Failed, RSMQError, RedisError) as error:
                report = describe_error(error)
                if report is None:
                    raise
                self.failures[ns] = report
                errors.append(error)
        if len(errors) == len(self._readers):
            raise errors[0]
        return figures

    def describe_failures(self) -> str | None:
        """Return what the last reading left out, as one line; None if nothing."""
        failures = [f"{ns}: {report.text}" for ns, report in self.failures.items()]
        queues = [f"{format_text(queue)}: {why}" for queue, why in self.unreadable.items()]
        return "; ".join(failures + queues) or None


def sum_figures(read: list[Figures]) -> dict[str, Any]:
    """Return the sums over queues, and the largest of their ages."""
    sums: dict[str, Any] = {}
    for name in SORTS[1:]:
        # A dead-letter queue that several queues share counts once.
        counted_once = (
            {(each.ns, each.dead_letter_queue): each for each in read}.values()
            if name == "dead"
            else read
        )
        values = [value for each in counted_once if (value := getattr(each, name)) is not None]
        is_age = name in {"oldest_seconds", "due_seconds"}
        sums[name] = (max if is_age else sum)(values) if values else None
    return sums


def sort_figures(read: list[Figures], by: str) -> list[Figures]:
    """Sort figures: names ascending, numbers descending, unknown numbers like 0."""
    if by == "queue":
        return sorted(read, key=lambda each: (each.queue, each.ns))
    return sorted(read, key=lambda each: (-(getattr(each, by) or 0), each.queue, each.ns))
