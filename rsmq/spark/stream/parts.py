"""
The parts of a stream's batches: received, extended, released and deleted, each in one atomic step.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from redis.exceptions import RedisError, ResponseError

from rsmq.errors import QueueNotFound, RSMQError
from rsmq.errors.guarded_log import get_logger
from rsmq.spark.connections import SparkQueue, SparkServer
from rsmq.spark.operations.batches import (
    MAX_PART_MESSAGES,
    Batch,
    LeasedPart,
    PartLimits,
    extend_leased,
    lease_messages,
    release_leased,
)
from rsmq.spark.stream.batches import BatchesInFlight, BatchEvent, BatchLimits, BatchState
from rsmq.spark.stream.ownership import Ownership
from rsmq.spark.stream.records import (
    AcknowledgedCounts,
    BatchRecords,
    StreamIdentity,
    acknowledge_parts,
)
from rsmq.spark.stream.stream_queues import StreamEntry, StreamQueues

log = get_logger(__name__)


@dataclass(slots=True)
class BatchParts:
    """
    Changes the parts of batches in Redis, and notes it in ``batches``.

    Attributes:
        latest_ms: the Unix time in ms until which messages must be due in this run, so that those
            that come next in their groups are due then; None is any time.
        tally: counts of messages since this process began.
        planned_at: the times of ``time.monotonic`` at which Spark planned the batches in flight.
    """

    stream: StreamIdentity
    batches: BatchesInFlight
    records: BatchRecords
    queues: StreamQueues
    ownership: Ownership
    entry: StreamEntry
    latest_ms: int | None = None
    tally: AcknowledgedCounts = field(default_factory=AcknowledgedCounts)
    planned_at: dict[int, float] = field(default_factory=dict)

    def receive(self, number: int, queue: SparkQueue, part: int, limits: BatchLimits) -> LeasedPart:
        """
        Receive a part of a batch; if it exists already, change nothing.

        Raises:
            LeaseTakenOver: another process has taken over the stream.
            CheckpointSetBack: the batch was acknowledged.
            QueueNotFound: a queue that the options name was deleted.
        """
        # Extended before the call, because the call may receive messages and then fail.
        self.batches.track(number, queue, [part])
        source, options = self.stream.source, self.stream.options
        operation = lease_messages(
            queue.server.namespace,
            queue.keys,
            self.stream.name_batch(number),
            part,
            PartLimits(
                max_messages=min(limits.messages, MAX_PART_MESSAGES),
                max_bytes=min(limits.size, source.max_bytes),
                # A body may be larger than all limits: the first of each queue is received anyway.
                is_first=part == 0 or limits.size >= source.max_bytes,
                vt=options.vt,
                latest_ms=limits.latest_ms,
                lifetime=options.lease_retention,
                dead_letters=options.dead_letters,
                has_rows=options.has_rows,
            ),
        )
        try:
            received = queue.server.rsmq.run(operation)
        except QueueNotFound:
            self.queues.remove(queue)
            return LeasedPart(0, 0, may_have_more=False)
        self.batches.note_hidden(number, queue, part, received.hidden_until_ms)
        return received

    def extend_found(self, number: int, found: Mapping[SparkQueue, Sequence[int]]) -> None:
        """Extend the parts of a batch that are in Redis with these sizes, now and from now on."""
        self.batches.note_found(number)
        for queue, sizes in found.items():
            self.batches.track(number, queue, range(len(sizes)))
        self.extend()

    def extend(self) -> None:
        """Extend the visibility timeouts and the receipts of all parts in flight."""
        vt, lifetime = self.stream.options.vt, self.stream.options.lease_retention
        failure: Exception | None = None
        failed: set[SparkServer] = set()
        for number, queue, part in self.batches.list_parts():
            # It may be acknowledged meanwhile.
            if not self.batches.get(number).parts or queue.server in failed:
                continue
            batch = self.stream.name_batch(number)
            operation = extend_leased(queue.keys, batch, part, vt=vt, lifetime=lifetime)
            try:
                _, _, until_ms = queue.server.rsmq.run(operation)
                self.batches.note_hidden(number, queue, part, until_ms)
            except RedisError as error:  # the others must still be extended
                failure = error
                if not isinstance(error, ResponseError):  # not of one queue
                    failed.add(queue.server)
        if failure is not None:
            raise failure

    def release(self, number: int, queue: SparkQueue, part: int) -> None:
        """
        Release a part of a batch, if it is the last one.

        Raises:
            LeaseTakenOver: another process has taken over the stream.
        """
        operation = release_leased(
            queue.server.namespace,
            queue.keys,
            self.stream.name_batch(number),
            part,
            has_policy=self.stream.options.dead_letters is not None,
        )
        queue.server.rsmq.run(operation)

    def release_unlogged(self) -> None:
        """
        Release the batches that Spark does not know, unless a successor owns the stream.

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
                name = self.stream.name_batch(batch.number)
                log.info("Batch %s was not released: %s", name, error)
            self.batches.change(batch.number, BatchEvent.RELEASE)

    def acknowledge_done(self) -> None:
        """
        Delete the messages of the batches that Spark has committed, and their receipts.

        Raises:
            LeaseTakenOver: another process has taken over the stream.
        """
        for batch in self.batches.find(BatchState.DONE):
            self.ownership.check()
            now = time.monotonic()
            seconds = now - self.planned_at.get(batch.number, now)
            name, before = map(self.stream.name_batch, (batch.number, batch.number - 1))
            earlier = self.records.read_sizes(before.number, batch.earlier_queues)
            for queue, sizes in earlier.items():
                parts = len(sizes)
                acknowledge_parts(queue, before, parts, self.tally, None, latest_ms=self.latest_ms)
            found = self.records.read_sizes(name.number, batch.queues)
            if batch.parts:
                self._warn_of_missing(name, [each for each in batch.queues if each not in found])
            counts = None
            if self.stream.is_named:  # ``find_last`` needs them
                counts = self.stream.store_counts(batch.queues)
            for queue in batch.queues:
                parts, done = len(found.get(queue, ())), self.tally.acknowledged
                acknowledge_parts(queue, name, parts, self.tally, counts, latest_ms=self.latest_ms)
                self.entry.count_done(queue, self.tally.acknowledged - done, seconds)
                counts = None  # once is enough
            self.batches.change(batch.number, BatchEvent.ACKNOWLEDGE)
            self.planned_at.pop(batch.number, None)

    def _warn_of_missing(self, batch: Batch, queues: Sequence[SparkQueue]) -> None:
        """Warn of queues without the batch, unless a listener has acknowledged it there."""
        for queue in queues:
            if self.records.read_acknowledged([queue.server]).number < batch.number:
                log.warning("Batch %s of queue %s is not in Redis any more.", batch, queue.label)
