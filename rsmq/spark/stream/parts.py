"""
The parts of a stream's batches: received, extended, released and deleted, each in one atomic step.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from redis.exceptions import RedisError, ResponseError

from rsmq.errors import CellFailed, QueueNotFound, RSMQError
from rsmq.spark.connections import PlacedQueue, SparkServer
from rsmq.spark.operations.batches import (
    MAX_PART_MESSAGES,
    Batch,
    LeasedPart,
    extend_leased,
    lease_messages,
    release_leased,
)
from rsmq.spark.read.source_options import SourceOptions, StreamOptions
from rsmq.spark.stream.batch_fill import BatchLimits
from rsmq.spark.stream.batches import BatchesInFlight, BatchEvent, BatchInFlight, BatchState
from rsmq.spark.stream.lease_holder import LeaseHolder
from rsmq.spark.stream.records import BatchRecords, acknowledge_parts
from rsmq.spark.stream.stream_queues import StreamQueues

log = logging.getLogger(__name__)


@dataclass(slots=True)
class AcknowledgedCounts:
    """
    Counts of messages since this process began.

    Attributes:
        acknowledged: messages that were deleted after their batch was done.
        lost: messages that were not deleted, because another consumer had received them meanwhile.
    """

    acknowledged: int = 0
    lost: int = 0


@dataclass(slots=True)
class BatchParts:
    """
    Changes the parts of batches in Redis, and notes it in ``batches``.

    Attributes:
        batches: the states of the batches, and what is in flight.
        records: the batches in Redis.
        queues: the queues of the stream.
        holder: this process as the holder of the lease.
        tally: counts of messages since this process began.
    """

    batches: BatchesInFlight[PlacedQueue]
    records: BatchRecords
    queues: StreamQueues
    holder: LeaseHolder
    source: SourceOptions
    options: StreamOptions
    tally: AcknowledgedCounts = field(default_factory=AcknowledgedCounts)

    def receive(
        self, number: int, queue: PlacedQueue, part: int, limits: BatchLimits
    ) -> LeasedPart:
        """
        Receive a part of a batch; if it exists already, change nothing.

        Args:
            number: the number of the batch.
            limits: the limits of the part.

        Raises:
            LeaseTakenOver: another process has taken over the lease.
            CheckpointSetBack: the batch was acknowledged.
            QueueNotFound: a queue that the options name was deleted.
        """
        # Extended before the call, because the call may receive messages and then fail.
        self.batches.track(number, queue, [part])
        operation = lease_messages(
            queue.server.namespace,
            queue.keys,
            Batch(self.records.lease, number),
            part,
            min(limits.messages, MAX_PART_MESSAGES),
            max_bytes=min(limits.size, self.source.max_bytes),
            # A body may be larger than all limits, so the first of each queue is received anyway.
            is_first=part == 0 or limits.size >= self.source.max_bytes,
            vt=self.options.vt,
            latest_ms=limits.latest_ms,
            lifetime=self.options.lease_retention,
            dead_letters=self.options.dead_letters,
            query=self.records.query,
            holder=self.holder.id,
        )
        try:
            received = queue.server.run(operation)
        except QueueNotFound:
            self.queues.remove(queue)
            return LeasedPart(0, 0, may_have_more=False)
        self.batches.note_hidden(number, queue, part, received.hidden_until_ms)
        return received

    def extend_found(self, number: int, found: Mapping[PlacedQueue, list[int]]) -> None:
        """
        Extend the parts of a batch that are in Redis, now and from now on.

        Args:
            number: the number of the batch.
            found: the sizes of its parts.
        """
        self.batches.note_found(number)
        for queue, sizes in found.items():
            self.batches.track(number, queue, range(len(sizes)))
        self.extend()

    def extend(self) -> None:
        """Extend the visibility timeouts and the receipts of all parts in flight."""
        vt, lifetime = self.options.vt, self.options.lease_retention
        failure: Exception | None = None
        failed: set[SparkServer] = set()
        for number, queue, part in self.batches.list_parts():
            # It may be acknowledged meanwhile.
            if not self.batches.get(number).parts or queue.server in failed:
                continue
            batch = Batch(self.records.lease, number)
            operation = extend_leased(queue.keys, batch, part, vt=vt, lifetime=lifetime)
            try:
                _, _, until_ms = queue.server.run(operation)
                self.batches.note_hidden(number, queue, part, until_ms)
            except (RedisError, CellFailed) as error:  # the others must still be extended
                failure = error
                if not isinstance(error.__cause__ or error, ResponseError):  # not of one queue
                    failed.add(queue.server)
        if failure is not None:
            raise failure

    def release(self, number: int, queue: PlacedQueue, part: int) -> None:
        """
        Release a part of a batch, if it is the last one.

        Raises:
            LeaseTakenOver: another process has taken over the lease.
        """
        operation = release_leased(
            queue.server.namespace,
            queue.keys,
            Batch(self.records.lease, number),
            part,
            query=self.records.query,
            holder=self.holder.id,
            has_policy=self.options.dead_letters is not None,
        )
        queue.server.run(operation)

    def release_unlogged(self) -> None:
        """
        Release the batches that Spark does not know, unless a successor has the lease.

        Those that an earlier process has received stay: it may have replied to Spark.
        """
        for batch in self.batches.find(BatchState.RECEIVING, BatchState.RECEIVED):
            if batch.is_earlier:
                continue
            try:
                for queue, part in reversed(batch.parts):
                    self.release(batch.number, queue, part)
            except (RedisError, RSMQError) as error:
                # A successor finds the batch; or it becomes visible after its timeout.
                name = Batch(self.records.lease, batch.number)
                log.info("Batch %s was not released: %s", name, error)
            self.batches.change(batch.number, BatchEvent.RELEASE)

    def acknowledge_done(self) -> None:
        """
        Delete the messages of the batches that Spark has committed, and their receipts.

        Raises:
            LeaseTakenOver: another process has taken over the lease.
        """
        for batch in self.batches.find(BatchState.DONE):
            self._acknowledge(batch)
            self.batches.change(batch.number, BatchEvent.ACKNOWLEDGE)

    def _acknowledge(self, batch: BatchInFlight[PlacedQueue]) -> None:
        self.holder.check()
        number = batch.number
        earlier = self.records.read_sizes(number - 1, batch.earlier_queues)
        for queue, sizes in earlier.items():
            self._acknowledge_parts(queue, number - 1, len(sizes), None)
        # A listener on the driver may have acknowledged the batch.
        servers = dict.fromkeys(queue.server for queue in batch.queues)
        is_new = {
            server: self.records.read_acknowledged(server).number < number for server in servers
        }
        counts = self._describe(batch)
        for queue in batch.queues:
            sizes = self.records.read_sizes(number, [queue]).get(queue, [])
            if is_new[queue.server] and not sizes and batch.parts:
                name = Batch(self.records.lease, number)
                log.warning("Batch %s of queue %s is not in Redis any more.", name, queue.label)
            self._acknowledge_parts(queue, number, len(sizes), counts)
            counts = None  # once is enough

    def _describe(self, batch: BatchInFlight[PlacedQueue]) -> dict[str, int] | None:
        """Return what the offset of a batch counts, which ``find_last`` needs of a named lease."""
        if self.records.query == self.records.lease:
            return None
        return {queue.label: number for queue, number in batch.queues.items()}

    def _acknowledge_parts(
        self, queue: PlacedQueue, number: int, parts: int, counts: Mapping[str, int] | None
    ) -> None:
        batch = Batch(self.records.lease, number)
        for deleted, lost in acknowledge_parts(
            queue, batch, parts, query=self.records.query, counts=counts
        ):
            self.tally.acknowledged += deleted
            self.tally.lost += lost
