"""
The next batch of a stream, which may be received while tasks process the one before.
"""

from __future__ import annotations

from enum import Enum, auto

from rsmq.spark.stream.batch_fill import BatchFill, BatchLimits


class NextBatchState(Enum):
    """The state of the next batch."""

    UNKNOWN = auto()  # it may have to wait for messages, so it is not received ahead
    EXPECTED = auto()  # the batch before was full: more messages are visible, probably
    STARTED = auto()  # a thread receives it, or has failed or found nothing
    RECEIVED = auto()  # its messages are received
    TAKEN_BACK = auto()  # the process ends before Spark gets its offset


class NextBatch:
    """
    The next batch of a stream, from the batch before to its own receive.

    Not thread-safe: only one thread uses it at a time.
    """

    def __init__(self) -> None:
        self.state = NextBatchState.UNKNOWN
        self._number = 0
        self._limits = BatchLimits()
        self._batch: BatchFill | None = None

    def expect(self, number: int, limits: BatchLimits) -> None:
        """Note that the batch before was full, with the limits of that one."""
        self._change(NextBatchState.EXPECTED, number)
        self._limits = limits

    def start(self, number: int) -> BatchLimits | None:
        """
        Return the limits of a batch that is to be received ahead; None if it is not.

        It is not if it was started before: Spark may plan the batch before it several times.
        """
        if self.state is not NextBatchState.EXPECTED:
            return None
        if self._number != number:
            self._change(NextBatchState.UNKNOWN)
            return None
        self._change(NextBatchState.STARTED, number)
        return self._limits

    def note_received(self, batch: BatchFill) -> None:
        """Note that the batch was received ahead."""
        self._change(NextBatchState.RECEIVED, batch.number)
        self._batch = batch

    def is_received(self, number: int) -> bool:
        """Return whether the batch of this number was received ahead."""
        return self.state is NextBatchState.RECEIVED and self._number == number

    def take(self, number: int) -> BatchFill | None:
        """Return the batch of this number if it was received ahead; forget what is known."""
        batch = self._batch if self.is_received(number) else None
        self._change(NextBatchState.UNKNOWN)
        return batch

    def take_back(self, number: int) -> None:
        """Note that Spark does not get the offset of a batch that was taken."""
        self._change(NextBatchState.TAKEN_BACK, number)

    def take_unlogged(self) -> int | None:
        """
        Return the number of a batch, received perhaps in part, whose offset Spark has not got.

        None if there is none. Forget what is known.
        """
        unlogged = {NextBatchState.STARTED, NextBatchState.RECEIVED, NextBatchState.TAKEN_BACK}
        number = self._number if self.state in unlogged else None
        self._change(NextBatchState.UNKNOWN)
        return number

    def _change(self, state: NextBatchState, number: int = 0) -> None:
        self.state, self._number, self._batch = state, number, None
