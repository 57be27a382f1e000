"""
A batch of a stream while it is received, part by part, within its limits. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
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

    def until(self, latest_ms: int) -> BatchLimits:
        """Return the limits with an earlier ``latest_ms``."""
        earlier = latest_ms if self.latest_ms is None else min(latest_ms, self.latest_ms)
        return self._replace(latest_ms=earlier)


class BatchFill:
    """
    A batch that is filled until its limits are reached or its queues have no more messages.

    Attributes:
        number: the number of the batch.
        is_full: whether the limits have ended the last receive, so that more messages may be
            visible.
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

    def adopt(self, sizes: dict[PlacedQueue, list[int]]) -> None:
        """Note the sizes of the parts of a batch that was received before, which is complete."""
        self._counts = {queue: sum(each) for queue, each in sizes.items()}
        self.is_full = sum(self._counts.values()) >= self._limits.messages

    def divide(
        self, queues: Sequence[PlacedQueue], received: list[LeasedPart]
    ) -> Iterator[tuple[PlacedQueue, int, BatchLimits]]:
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
                    yield queue, self._parts[queue], wanted
                    part = received.pop()
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
