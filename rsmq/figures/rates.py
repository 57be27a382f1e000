"""
Rates of queues, from two readings of their totals.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from rsmq.model import QueueAttributes

#: Seconds between two readings, at least: a rate of less time says nothing.
_MIN_SECONDS = 1e-3


@dataclass(frozen=True, slots=True)
class TotalRates:
    """
    The sends and receives in a second between two readings.

    Attributes:
        sent: messages.
        received: receives and pops, repeated receives included.
        seconds: the time between the readings.
    """

    sent: float
    received: float
    seconds: float


class RatesReader:
    """The rates of queues, each between its last two readings."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, QueueAttributes]] = {}

    def note(self, queue: str, attributes: QueueAttributes) -> TotalRates | None:
        """
        Note a reading that was just made, and return the rates since the one before.

        Returns:
            None without one before, or if the queue was created again since.
        """
        now = time.monotonic()
        before = self._last.get(queue)
        self._last[queue] = now, attributes
        if before is None:
            return None
        read_at, last = before
        seconds = max(now - read_at, _MIN_SECONDS)
        sent = attributes.total_sent - last.total_sent
        received = attributes.total_received - last.total_received
        if min(sent, received) < 0:
            return None
        return TotalRates(sent / seconds, received / seconds, seconds)
