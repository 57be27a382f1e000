"""
How queues stand, read again and again at a bounded cost; for ``rsmq top``.

The attributes of each queue are read each time, in constant time or nearly. What needs a walk, the
messages in flight and the oldest, is read at most each five seconds, and only of queues of up to
10,000 messages; of longer ones what is hidden counts as in flight, and the first message that is
due as the oldest: both are marked as about.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from typing import Any

from redis.exceptions import RedisError

from rsmq.cli.app.exit_codes import why_odd
from rsmq.client import RSMQ
from rsmq.errors import QueueNotFound, RSMQError
from rsmq.model import QueueAttributes

#: Seconds for which what a walk has found is shown again.
_FRESH = 5.0
#: Messages up to which a queue is walked through.
_WALKED = 10_000


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


@dataclass(frozen=True, slots=True)
class _Walk:
    """What a walk found, or the estimate of it: when, and in place of what."""

    at: float
    in_flight: int
    delayed: int
    oldest_ms: float | None
    about: bool


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
        self._walks: dict[str, _Walk] = {}
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
        walk = self._walk(queue, stands)
        target = stands.dead_letter_queue
        dead = self._attributes(known, target) if target else None
        oldest = None if walk.oldest_ms is None else max(time.time() - walk.oldest_ms / 1000, 0)
        return Figures(
            queue,
            stands.visible_messages,
            walk.in_flight,
            walk.delayed,
            None if dead is None else dead.messages,
            sent,
            received,
            oldest,
            target,
            walk.about,
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

    def _walk(self, queue: str, stands: QueueAttributes) -> _Walk:
        now = time.monotonic()
        walk = self._walks.get(queue)
        if stands.messages == 0:
            return _Walk(now, 0, 0, None, about=False)
        if walk is not None and now - walk.at < _FRESH and walk.about == _is_long(stands):
            if walk.about:
                return _Walk(walk.at, stands.hidden_messages, 0, walk.oldest_ms, about=True)
            return walk
        walk = self._walks[queue] = self._walked(queue, stands, now)
        return walk

    def _walked(self, queue: str, stands: QueueAttributes, now: float) -> _Walk:
        try:
            if _is_long(stands):
                first = self._rsmq.peek_messages(queue, 0, 1)
                oldest = first[0].sent_ms if first else None
                return _Walk(now, stands.hidden_messages, 0, oldest, about=True)
            counts = self._rsmq.count_messages(queue)
        except QueueNotFound:
            return _Walk(now, 0, 0, None, about=False)
        return _Walk(now, counts.in_flight, counts.delayed, counts.oldest_sent_ms, about=False)


def _is_long(stands: QueueAttributes) -> bool:
    return stands.messages > _WALKED


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
