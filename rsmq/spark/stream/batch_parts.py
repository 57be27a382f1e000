"""
The parts of a stream's batches: received, released, and extended while they are in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rsmq.errors import QueueNotFound
from rsmq.spark.connections import PlacedQueue
from rsmq.spark.operations.batches import (
    MAX_PART_MESSAGES,
    Batch,
    LeasedPart,
    lease_messages,
    release_leased,
)
from rsmq.spark.read.source_options import SourceOptions, StreamOptions
from rsmq.spark.stream.batch_fill import BatchFill, BatchLimits
from rsmq.spark.stream.batch_records import BatchRecords
from rsmq.spark.stream.heartbeat import LeaseHeartbeat
from rsmq.spark.stream.lease_holder import LeaseHolder
from rsmq.spark.stream.stream_queues import StreamQueues


class BatchParts:
    """Receives and releases the parts of batches, each in one atomic step."""

    def __init__(
        self,
        records: BatchRecords,
        queues: StreamQueues,
        holder: LeaseHolder,
        heartbeat: LeaseHeartbeat,
        *,
        source: SourceOptions,
        options: StreamOptions,
        is_stopped: Callable[[], bool],
    ) -> None:
        """
        Receive nothing.

        Args:
            records: the records of the lease.
            holder: this process as the holder of the lease.
            heartbeat: extends the parts that are received.
            is_stopped: whether to receive no further parts of a batch.
        """
        self._source = source
        self._options = options
        self._records = records
        self._queues = queues
        self._holder = holder
        self._heartbeat = heartbeat
        self._is_stopped = is_stopped

    def fill(self, batch: BatchFill, queues: Sequence[PlacedQueue]) -> None:
        """Receive messages of queues for a batch, until it is full or there are no more."""
        batch.fill(
            queues,
            lambda queue, part, limits: self.receive(batch.number, queue, part, limits),
            self._is_stopped,
        )

    def fill_ahead(self, batch: BatchFill, queues: Sequence[PlacedQueue]) -> None:
        """
        Fill a batch while tasks process the one before, of which nothing is received again.

        The timeouts of that one may end, if Redis or this process stops for a while.
        """
        hidden_until = {
            queue: self._heartbeat.find_hidden_until(batch.number - 1, queue) for queue in queues
        }

        def receive(queue: PlacedQueue, part: int, limits: BatchLimits) -> LeasedPart:
            until_ms = hidden_until[queue]
            if until_ms is not None:
                latest_ms = until_ms - 1
                if limits.latest_ms is not None:
                    latest_ms = min(latest_ms, limits.latest_ms)
                limits = limits._replace(latest_ms=latest_ms)
            return self.receive(batch.number, queue, part, limits)

        batch.fill(queues, receive, self._is_stopped)

    def receive(
        self, number: int, queue: PlacedQueue, part: int, limits: BatchLimits
    ) -> LeasedPart:
        """
        Receive a part of a batch; if it exists already, change nothing.

        Args:
            number: the number of the batch.
            limits: the limits of the rest of the batch.

        Raises:
            LeaseTakenOver: another process has taken over the lease.
            CheckpointSetBack: the batch was acknowledged.
            QueueNotFound: a queue that the options name was deleted.
        """
        # Extended before the call, because the call may receive messages and then fail.
        self._heartbeat.track(number, queue, [part])
        operation = lease_messages(
            queue.server.namespace,
            queue.keys,
            Batch(self._records.lease, number),
            part,
            min(limits.messages, MAX_PART_MESSAGES),
            max_bytes=min(limits.size, self._source.max_bytes),
            # A body may be larger than all limits, so the first of each queue is received anyway.
            is_first=part == 0 or limits.size >= self._source.max_bytes,
            vt=self._options.vt,
            latest_ms=limits.latest_ms,
            lifetime=self._options.lease_retention,
            dead_letters=self._options.dead_letters,
            query=self._records.query,
            holder=self._holder.id,
        )
        try:
            received = queue.server.run(operation)
        except QueueNotFound:
            self._queues.remove(queue)
            return LeasedPart(0, 0, may_have_more=False)
        self._heartbeat.note_hidden(number, queue, part, received.hidden_until_ms)
        return received

    def extend(self, number: int, sizes: dict[str, list[int]]) -> None:
        """
        Extend the parts of a batch now, and from now on.

        Args:
            number: the number of the batch.
            sizes: the sizes of its parts, by the label of the queue.
        """
        for label, parts in sizes.items():
            (queue,) = self._queues.find([label])
            self._heartbeat.track(number, queue, range(len(parts)))
        self._heartbeat.extend()

    def release(self, number: int, queue: PlacedQueue, part: int) -> None:
        """
        Release a part of a batch, if it is the last one.

        Raises:
            LeaseTakenOver: another process has taken over the lease.
        """
        queue.server.run(
            release_leased(
                queue.server.namespace,
                queue.keys,
                Batch(self._records.lease, number),
                part,
                query=self._records.query,
                holder=self._holder.id,
                has_policy=self._options.dead_letters is not None,
            )
        )

    def release_all(self, number: int) -> None:
        """
        Release all parts of a batch that are extended, from the last to the first.

        Raises:
            LeaseTakenOver: another process has taken over the lease.
        """
        for queue, part in reversed(self._heartbeat.parts_of(number)):
            self.release(number, queue, part)

    def release_behind(self, number: int, label: str, sizes: list[int], kept: int) -> None:
        """
        Release the parts of a batch in a queue behind the first ones; remove their sizes.

        Args:
            number: the number of the batch.
            kept: the number of the first parts.
        """
        (queue,) = self._queues.find([label])
        while len(sizes) > kept:
            self.release(number, queue, len(sizes) - 1)
            del sizes[-1]
