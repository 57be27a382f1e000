"""
A batch of a stream while it is received, part by part, within its limits. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rsmq.spark.connections import SparkQueue
    from rsmq.spark.operations.batches import LeasedPart
    from rsmq.spark.stream.identity import QueueCounts

UNLIMITED = 2**53


class BatchLimits(NamedTuple):
    """
    The limits of a batch, or of the rest of it.

    Attributes:
        messages: the most messages.
        size: the most bytes of bodies, except that the first body of each queue may be larger.
        latest_ms: only messages that became visible until this Unix time in ms are received; None
            is the present.
    """

    messages: int = UNLIMITED
    size: int = UNLIMITED
    latest_ms: int | None = None

    def without(self, messages: int, size: int) -> BatchLimits:
        """Return the rest of the limits."""
        return self._replace(messages=self.messages - messages, size=self.size - size)

    def until(self, latest_ms: int | None) -> BatchLimits:
        """Return the limits with another ``latest_ms``, if that is earlier."""
        times = [each for each in (self.latest_ms, latest_ms) if each is not None]
        return self._replace(latest_ms=min(times, default=None))


class BatchFill:
    """
    A batch that is filled until its limits are reached or its queues have no more messages.

    Attributes:
        is_full: whether the limits have ended the last receive, so that more messages may be
            visible.
    """

    def __init__(self, number: int, limits: BatchLimits) -> None:
        self.number = number
        self.is_full = False
        self._limits = limits
        self._sizes: dict[SparkQueue, list[int]] = {}  # of the parts

    @property
    def counts(self) -> QueueCounts:
        """How many messages the batch has."""
        return {queue: sum(sizes) for queue, sizes in self._sizes.items() if sizes}

    def adopt(self, sizes: dict[SparkQueue, list[int]]) -> None:
        """Note the sizes of the parts of a batch that was received before, which is complete."""
        self._sizes = sizes
        self.is_full = sum(self.counts.values()) >= self._limits.messages

    def divide(
        self, queues: Sequence[SparkQueue], received: list[LeasedPart]
    ) -> Iterator[tuple[SparkQueue, int, BatchLimits]]:
        """
        Yield the next part until the limits are reached or the queues have no more messages.

        Each queue gets an equal share of the limits; the next round divides what a queue did not
        use. May be called again, if the batch is not full.

        Args:
            received: the caller appends the result of each part to it.

        Yields:
            The queue, the number of the part, and its limits.
        """
        for queue in queues:  # also the order of the queues in the offset
            self._sizes.setdefault(queue, [])
        may_have_more = set(queues)
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
                    yield queue, len(self._sizes[queue]), wanted
                    part = received.pop()
                    size = wanted.size if part.size is None else part.size
                    if part.messages:
                        self._sizes[queue].append(part.messages)
                        self._limits = self._limits.without(part.messages, size)
                    if not part.may_have_more:
                        may_have_more.discard(queue)
                    # Without a message, its next body does not fit into this batch.
                    if not part.may_have_more or (size and not part.messages):
                        remaining.remove(queue)
                        break
                    wanted = wanted.without(part.messages, size)
        self.is_full = bool(may_have_more)
