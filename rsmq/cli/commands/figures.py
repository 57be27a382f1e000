"""
The figures of queues that ``rsmq top`` shows, and their rates of change.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from typing import Any

from redis.exceptions import RedisError

from rsmq.cli.app.errors import why_odd
from rsmq.client import RSMQ
from rsmq.errors import QueueNotFound, RSMQError
from rsmq.gauges import GaugeReader
from rsmq.model import QueueAttributes


@dataclass(frozen=True, slots=True)
class Figures:
    """
    How a queue stands; None is what is not known.

    Attributes:
        queue: its name.
        visible: messages that are due.
        in_flight: those that are received and hidden.
        delayed: those that were never received and are hidden.
        dead: messages in its dead-letter queue.
        sent_per_second: since the last reading.
        received_per_second: since the last reading, pops and redeliveries included.
        oldest_seconds: since the oldest message was sent.
        dead_letter_queue: the name of that queue.
        about: whether in_flight, delayed and oldest_seconds are estimates.
        paused: whether workers leave it alone.
    """

    queue: str
    visible: int
    in_flight: int
    delayed: int
    dead: int | None
    sent_per_second: float | None
    received_per_second: float | None
    oldest_seconds: float | None
    dead_letter_queue: str | None
    about: bool
    paused: bool


#: What queues are sorted by.
SORTS = tuple(each.name for each in fields(Figures))[:-3]


class Reader:
    """Reads queues."""

    def __init__(self, rsmq: RSMQ, queues: tuple[str, ...]) -> None:
        """
        Nothing is read yet.

        Args:
            rsmq: where.
            queues: their names; none for all that are listed, those made later too.
        """
        self._rsmq = rsmq
        self._queues = queues
        self._gauges = GaugeReader(rsmq)
        self._totals: dict[str, tuple[float, int, int]] = {}
        #: Listed queues that could not be read the last time, each with the reason.
        self.odd: dict[str, str] = {}

    def read(self) -> list[Figures]:
        """
        How the queues stand now.

        Raises:
            QueueNotFound: one that was named does not exist.
        """
        known: dict[str, QueueAttributes | None] = {}
        self.odd = {}
        for queue in self._queues or self._rsmq.list_queues():
            found = self._attributes(known, queue)
            if found is None and self._queues:
                raise QueueNotFound(queue)
        return [
            self._figures(known, queue, each)
            for queue, each in list(known.items())
            if each is not None
        ]

    def _attributes(
        self, known: dict[str, QueueAttributes | None], queue: str
    ) -> QueueAttributes | None:
        if queue not in known:
            try:
                known[queue] = self._rsmq.get_queue_attributes(queue)
            except QueueNotFound:  # deleted since, or listed and never there
                known[queue] = None
            except (RSMQError, RedisError) as error:
                why = why_odd(error)
                if why is None or queue in self._queues:
                    raise
                known[queue] = None
                self.odd[queue] = why
        return known[queue]

    def _figures(
        self, known: dict[str, QueueAttributes | None], queue: str, stands: QueueAttributes
    ) -> Figures:
        sent, received = self._rates(queue, stands)
        gauges = self._gauges.read(queue, stands)
        target = stands.dead_letter_queue
        dead = self._attributes(known, target) if target else None
        return Figures(
            queue,
            stands.visible_messages,
            gauges.in_flight,
            gauges.delayed,
            None if dead is None else dead.messages,
            sent,
            received,
            gauges.oldest_seconds,
            target,
            gauges.is_estimate,
            stands.paused,
        )

    def _rates(self, queue: str, stands: QueueAttributes) -> tuple[float | None, float | None]:
        now = time.monotonic()
        before = self._totals.get(queue)
        self._totals[queue] = now, stands.total_sent, stands.total_received
        if before is None:
            return None, None
        at, sent, received = before
        took = max(now - at, 1e-3)
        changes = stands.total_sent - sent, stands.total_received - received
        if min(changes) < 0:  # made anew
            return None, None
        return changes[0] / took, changes[1] / took


def totals(read: list[Figures]) -> dict[str, Any]:
    """The sums over queues, and the age of the oldest message of all."""
    told: dict[str, Any] = {}
    for name in SORTS[1:]:
        # A dead-letter queue may be that of several.
        of = {each.dead_letter_queue: each for each in read}.values() if name == "dead" else read
        values = [value for each in of if (value := getattr(each, name)) is not None]
        told[name] = (max if name == "oldest_seconds" else sum)(values) if values else None
    return told


def in_order(read: list[Figures], by: str) -> list[Figures]:
    """Queues in order: names from A on, numbers from the largest on, what is unknown last."""
    if by == "queue":
        return sorted(read, key=lambda each: each.queue)
    return sorted(read, key=lambda each: (-(getattr(each, by) or 0), each.queue))
