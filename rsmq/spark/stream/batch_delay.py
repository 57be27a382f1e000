"""
The delay of a stream's next batch until enough messages wait.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rsmq.spark.stream.in_flight_batches import BatchLease


class BatchDelay:
    """
    A delay after each batch, until enough messages are visible or its longest time is over.

    The first batch of a process is never delayed, as in Spark's source for Kafka: it may have been
    received before a crash.
    """

    def __init__(self, min_messages: int, max_seconds: float) -> None:
        """
        Begin without a delay.

        Args:
            min_messages: how many messages end the delay; 1 delays no batch.
            max_seconds: the longest time after the last batch.
        """
        self._min_messages = min_messages
        self._max_seconds = max_seconds
        self._ends_at = float("-inf")
        self._is_active = False

    def note_received(self) -> None:
        """Begin the delay, because a batch was received."""
        self._ends_at = time.monotonic() + self._max_seconds
        self._is_active = self._min_messages > 1

    def must_wait(self, lease: BatchLease) -> bool:
        """
        Return whether the next batch must wait; block for 0.05 seconds at most.

        Args:
            lease: the lease of the stream.
        """
        if not self._is_active:
            return False
        has_changed = lease.may_have_messages()
        if time.monotonic() < self._ends_at and not (
            has_changed and lease.count_visible() >= self._min_messages
        ):
            return True
        self._is_active = False
        lease.idle_wait.end()
        return False
