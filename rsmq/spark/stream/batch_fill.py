"""
A batch of a stream while it is received, part by part, within its limits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rsmq.spark.connections import PlacedQueue
from rsmq.spark.operations.batches import LeasedPart


class BatchLimits(NamedTuple):
    """
    The limits of a batch, or of the rest of it.

    Attributes:
        messages: the most messages.
        size: the most bytes of bodies, except that the first body of each queue may be larger.
        latest_ms: only messages that became visible until this Unix time in ms are received; None
            is the present.
    """

    messages: int = 2**53
    size: int = 2**53
    latest_ms: int | None = None

    def without(self, messages: int, size: int) -> BatchLimits:
        """Return the rest of the limits."""
        return self._replace(messages=self.messages - messages, size=self.size - size)


#: Receives a part of a batch: of a queue, with a number from 0, within limits.
ReceivePart = Callable[[PlacedQueue, int, BatchLimits], LeasedPart]


class BatchFill:
    """
    A batch that is filled until its limits are reached or its queues have no more messages.

    Attributes:
        number: the number of the batch.
        is_full: whether the limits have ended the last call of ``fill``, so that more messages may
            be visible.
    """

    def __init__(self, number: int, limits: BatchLimits) -> None:
        """
        Begin with no messages.

        Args:
            number: the number of the batch.
        """
        self.number = number
        self.is_full = False
        self._limits = limits
        self._parts: dict[PlacedQueue, int] = {}
        self._counts: dict[PlacedQueue, int] = {}

    @property
    def counts(self) -> dict[str, int]:
        """How many messages the batch has, by the label of the queue."""
        return {queue.label: count for queue, count in self._counts.items() if count}

    def fill(
        self,
        queues: Sequence[PlacedQueue],
        receive_part: ReceivePart,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """
        Receive parts until the limits are reached or the queues have no more messages.

        Each queue gets an equal share of the limits; the next round divides what a queue did not
        use. May be called again, if the batch is not full.

        Args:
            is_stopped: ends the call before the next part if it returns true.
        """
        for queue in queues:
            self._parts.setdefault(queue, 0)
            self._counts.setdefault(queue, 0)
        may_have_more = dict.fromkeys(queues, True)
        remaining = list(queues)
        while remaining and self._limits.messages > 0 and self._limits.size > 0:
            share = self._limits._replace(
                messages=-(-self._limits.messages // len(remaining)),
                size=-(-self._limits.size // len(remaining)),
            )
            for queue in list(remaining):
                wanted = share._replace(
                    messages=min(share.messages, self._limits.messages),
                    size=min(share.size, self._limits.size),
                )
                while wanted.messages > 0 and wanted.size > 0:
                    if is_stopped():
                        return
                    part = receive_part(queue, self._parts[queue], wanted)
                    size = wanted.size if part.size is None else part.size
                    if part.messages:
                        self._parts[queue] += 1
                        self._counts[queue] += part.messages
                        self._limits = self._limits.without(part.messages, size)
                    may_have_more[queue] = part.may_have_more
                    # Without a message, its next body does not fit into this batch.
                    if not part.may_have_more or (size and not part.messages):
                        remaining.remove(queue)
                        break
                    wanted = wanted.without(part.messages, size)
        self.is_full = any(may_have_more.values())
