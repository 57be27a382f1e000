"""
The batches that Spark has committed, which the process of a stream acknowledges.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rsmq.spark.connections import PlacedQueue
from rsmq.spark.operations.batches import Batch
from rsmq.spark.stream.acknowledgement import acknowledge_parts
from rsmq.spark.stream.batch_records import BatchRecords
from rsmq.spark.stream.heartbeat import LeaseHeartbeat
from rsmq.spark.stream.lease_holder import LeaseHolder

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


class DoneBatch(NamedTuple):
    """
    A batch that Spark has committed.

    Attributes:
        number: its number.
        stream_queues: all queues of the stream, which may have parts of the batch before it.
    """

    number: int
    queues: Sequence[PlacedQueue]
    stream_queues: Sequence[PlacedQueue]


class BatchAcknowledgement:
    """
    Deletes the messages of batches that Spark has committed, and their receipts.

    Attributes:
        tally: counts of messages since this process began.
        last: the number of the batch that this process has acknowledged last.
        pending: a batch that a thread acknowledges, or has failed to acknowledge.
    """

    def __init__(
        self, records: BatchRecords, holder: LeaseHolder, heartbeat: LeaseHeartbeat
    ) -> None:
        """
        Acknowledge nothing.

        Args:
            records: the records of the lease.
            holder: this process as the holder of the lease.
            heartbeat: extends the batches in flight.
        """
        self.tally = AcknowledgedCounts()
        self.last: int | None = None
        self.pending: DoneBatch | None = None
        self._records = records
        self._holder = holder
        self._heartbeat = heartbeat

    def has_begun(self, number: int) -> bool:
        """Return whether this process has acknowledged a batch last, or does it now."""
        pending = self.pending  # read first: the thread clears it last
        return (pending is not None and pending.number == number) or self.last == number

    def finish_pending(self) -> None:
        """Acknowledge the pending batch, if there is one."""
        if self.pending is not None:
            self.acknowledge(self.pending)
            self.pending = None

    def acknowledge(self, batch: DoneBatch) -> None:
        """
        Delete the messages of a batch, and its receipts.

        Raises:
            LeaseTakenOver: another query took over the lease.
        """
        number = batch.number
        if self.last == number:
            return
        self._holder.check()
        if self.last is None and number > 1:
            # An earlier process may have stopped while it acknowledged the batch before.
            for queue in dict.fromkeys([*batch.queues, *batch.stream_queues]):
                parts = len(self._records.read_sizes(number - 1, queue))
                self._acknowledge_parts(queue, number - 1, parts)
        # A listener on the driver may have acknowledged the batch.
        servers = dict.fromkeys(queue.server for queue in batch.queues)
        is_new = {server: self._records.read_acknowledged(server)[0] < number for server in servers}
        for queue in batch.queues:
            sizes = self._records.read_sizes(number, queue)
            if is_new[queue.server] and not sizes and self._heartbeat.has(number):
                name = Batch(self._records.lease, number)
                log.warning("Batch %s of queue %s is not in Redis any more.", name, queue.label)
            self._acknowledge_parts(queue, number, max(1, len(sizes)))
        self._heartbeat.untrack(number)
        self.last = number

    def _acknowledge_parts(self, queue: PlacedQueue, number: int, parts: int) -> None:
        if parts:
            batch = Batch(self._records.lease, number)
            for counts in acknowledge_parts(queue, batch, parts, query=self._records.query):
                self.tally.acknowledged += counts[0]
                self.tally.lost += counts[1]
