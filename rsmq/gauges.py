"""
Figures of queues, read repeatedly at a bounded cost: for metrics and ``rsmq top``.

The attributes of a queue are read each time, in O(log n) time at most. The number of messages in
flight and the oldest message need a walk through the queue. A walk is made at most every five
seconds, and only through queues of up to 10,000 messages. For longer queues they are estimated: all
hidden messages count as in flight, and the first message that is due counts as the oldest. The
limit applies to the messages of all cells of a set together.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from rsmq._sync.cells import Cells
from rsmq._sync.client import RSMQ
from rsmq.errors import QueueNotFound
from rsmq.gauge_sources import make_source
from rsmq.model import QueueAttributes

#: Seconds for which the result of a walk is reused.
FRESH_SECONDS = 5.0
#: The maximum number of messages of a queue that is walked through.
MAX_WALKED_MESSAGES = 10_000


@dataclass(frozen=True, slots=True)
class QueueGauges:
    """
    The figures of one queue.

    Attributes:
        attributes: the queue's attributes as they were read.
        in_flight: messages that were received and are hidden, without those that wait for a retry.
        retrying: messages that wait for a retry after a failure.
        delayed: messages that were never received and are hidden.
        oldest_seconds: seconds since the oldest message was sent; None without a message.
        due_seconds: seconds since the message that is received next became visible, at the time of
            the walk; None without a visible message.
        is_estimate: whether in_flight, retrying, delayed and oldest_seconds are estimates.
    """

    attributes: QueueAttributes
    in_flight: int
    retrying: int
    delayed: int
    oldest_seconds: float | None
    due_seconds: float | None
    is_estimate: bool


@dataclass(frozen=True, slots=True)
class _Walk:
    """The result of a walk at a monotonic time, or the estimate that replaces a walk."""

    walked_at: float
    in_flight: int
    retrying: int
    delayed: int
    oldest_ms: float | None
    due_seconds: float | None
    is_estimate: bool


class GaugeReader:
    """
    A reader of the figures of the queues of a namespace, or of a set of cells.

    Attributes:
        source: the queues. Begin a round before reading.
    """

    def __init__(self, rsmq: RSMQ[Any] | Cells) -> None:
        self.source = make_source(rsmq)
        self._walks: dict[str, _Walk] = {}

    def read(self, queue: str, attributes: QueueAttributes) -> QueueGauges:
        """
        Return the figures of a queue.

        Args:
            queue: its name.
            attributes: its attributes, as they were just read.
        """
        walk = self._walk(queue, attributes)
        oldest = None if walk.oldest_ms is None else max(time.time() - walk.oldest_ms / 1000, 0)
        return QueueGauges(
            attributes,
            walk.in_flight,
            walk.retrying,
            walk.delayed,
            oldest,
            walk.due_seconds,
            walk.is_estimate,
        )

    def _walk(self, queue: str, attributes: QueueAttributes) -> _Walk:
        now = time.monotonic()
        if attributes.messages == 0:
            return _Walk(now, 0, 0, 0, None, None, is_estimate=False)
        walk = self._walks.get(queue)
        if (
            walk is None
            or now - walk.walked_at >= FRESH_SECONDS
            or walk.is_estimate != _is_long(attributes)
        ):
            walk = self._walks[queue] = self._new_walk(queue, attributes, now)
        elif walk.is_estimate:
            return replace(walk, in_flight=attributes.hidden_messages)
        return walk

    def _new_walk(self, queue: str, attributes: QueueAttributes, now: float) -> _Walk:
        try:
            if _is_long(attributes):
                first = self.source.find_first(queue)
                sent = [message.sent_ms for message in first if message.sent_ms is not None]
                return _Walk(
                    now,
                    attributes.hidden_messages,
                    0,
                    0,
                    min(sent, default=None),
                    _seconds_since(min((each.visible_at_ms for each in first), default=None)),
                    is_estimate=True,
                )
            counts = self.source.count_messages(queue)
        except QueueNotFound:  # deleted since its attributes were read
            return _Walk(now, 0, 0, 0, None, None, is_estimate=False)
        return _Walk(
            now,
            counts.in_flight,
            counts.retrying,
            counts.delayed,
            counts.oldest_sent_ms,
            _seconds_since(counts.due_since_ms),
            is_estimate=False,
        )


def _seconds_since(ms: float | None) -> float | None:
    """Return the seconds since a Unix ms; None if it is in the future."""
    seconds = -1.0 if ms is None else time.time() - ms / 1000
    return seconds if seconds >= 0 else None


def _is_long(attributes: QueueAttributes) -> bool:
    return attributes.messages > MAX_WALKED_MESSAGES
