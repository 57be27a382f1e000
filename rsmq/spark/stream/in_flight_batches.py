"""
The batches of a stream that are received and not yet acknowledged.

Spark runs one process for each stream on the driver; the lease lives in it. Redis stores the
batches by lease, batch and part, so the next process continues where this one stopped, and no
message is received twice for one batch. A heartbeat extends the visibility timeouts while the
process lives; when it dies, other consumers can receive the messages after that timeout.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from redis.exceptions import RedisError

from rsmq.errors import BatchLost, LeaseTakenOver, RSMQError
from rsmq.spark.connections import PlacedQueue, get_servers
from rsmq.spark.operations.batches import delete_expired_leases
from rsmq.spark.read.source_options import SourceOptions, StreamOptions
from rsmq.spark.stream import lease_holder
from rsmq.spark.stream.backlog import read_backlog
from rsmq.spark.stream.batch_fill import BatchFill, BatchLimits
from rsmq.spark.stream.batch_parts import BatchParts
from rsmq.spark.stream.batch_records import BatchRecords
from rsmq.spark.stream.done_batches import BatchAcknowledgement, DoneBatch
from rsmq.spark.stream.heartbeat import LeaseHeartbeat
from rsmq.spark.stream.idle_wait import IdleWait
from rsmq.spark.stream.lease_holder import LeaseHolder
from rsmq.spark.stream.next_batch import NextBatch
from rsmq.spark.stream.offsets import make_offset
from rsmq.spark.stream.sigterm import SigtermHandler
from rsmq.spark.stream.stream_queues import StreamQueues
from rsmq.spark.stream.successive_threads import SuccessiveThreads
from rsmq.wire.refusals import make_batch_acknowledged

log = logging.getLogger(__name__)


class BatchLease:
    """
    The lease of a stream: receives, extends and acknowledges its batches.

    Attributes:
        acknowledgement: deletes the batches that Spark has committed.
        holder: this process as the holder of the lease.
        heartbeat: extends the batches in flight.
        idle_wait: the wait for messages between polls.
        background: the threads of ``acknowledge_soon`` and ``receive_soon``.
    """

    def __init__(
        self,
        name: str,
        source: SourceOptions,
        options: StreamOptions,
        sigterm: SigtermHandler,
    ) -> None:
        """
        Change nothing in Redis; ``start`` does.

        Args:
            sigterm: ends waits, and the receive of a batch.
        """
        self.name = name
        query = name
        if options.consumer_group is not None:
            # Queries of different queues may have the same name.
            query += ":" + (source.pattern or ",".join(sorted(source.queues)))
        servers = get_servers(source.connection)
        self._source = source
        self._options = options
        self._records = BatchRecords(servers, name, query)
        self.idle_wait = IdleWait(options.idle_wait)
        self._searched_batch: int | None = None
        self._next = NextBatch()
        self.background = SuccessiveThreads("rsmq-ahead")
        self.holder = LeaseHolder(
            servers,
            name,
            query,
            options.lease_retention,
            sigterm.sleep,
            is_named=options.consumer_group is not None,
        )
        self.heartbeat = LeaseHeartbeat(servers, name, query, self.holder, options)
        self.acknowledgement = BatchAcknowledgement(self._records, self.holder, self.heartbeat)
        dead_letters = options.dead_letters
        self.queues = StreamQueues(
            servers,
            source,
            None if dead_letters is None else dead_letters.queue,
            self.holder.acquire,
            may_lack=not options.fail_on_data_loss,
        )
        self._parts = BatchParts(
            self._records,
            self.queues,
            self.holder,
            self.heartbeat,
            source=source,
            options=options,
            is_stopped=lambda: self.heartbeat.stopped.is_set() or sigterm.has_arrived(),
        )

    def start(self, *, is_new: bool) -> None:
        """
        Take over the lease from processes that have had it before, and delete expired ones.

        A consumer group is acquired first, which waits until no other query renews it. ``stop``
        releases it, also if this call is interrupted.

        Args:
            is_new: whether this process has generated the name, so that no other one has had it.

        Raises:
            InvalidOption: another query that lives has acquired the lease.
            QueueNotFound: a queue that the options name does not exist.
        """
        for queue in self.queues.get():
            queue.server.run(delete_expired_leases(queue.keys))
        if self._options.consumer_group is not None:
            self.heartbeat.start()
        elif not is_new:
            self.holder.take_over()

    def find_start(self) -> tuple[int, dict[str, int]]:
        """
        Return the batch after which a new checkpoint of a named lease starts.

        Returns:
            The number of the batch: the last that was acknowledged, or the one before the first
            batch in flight, whichever is higher; 0 if there is none. And, by the label of each
            queue, how many messages of this batch an interrupted acknowledgement has left.
        """
        last, _ = self._records.read_last_acknowledged()
        queues = self.queues.get()
        last = max(last, min(self._records.read_in_flight(queues), default=1) - 1)
        remaining = self._records.read_all_sizes(last, queues)
        return last, {queue: sum(sizes) for queue, sizes in remaining.items()}

    def find_last(self) -> tuple[int, dict[str, int], bool]:
        """
        Return the batch that was received last, by any process.

        Returns:
            The number of the batch, or 0. How many messages of it are in flight, by the label of
            each queue. And whether its acknowledgement has begun: Spark has committed it.
        """
        done, _ = self._records.read_last_acknowledged()
        queues = self.queues.get()
        last = max(done, *self._records.read_in_flight(queues), 0)
        sizes = self._records.read_all_sizes(last, queues)
        return last, {queue: sum(each) for queue, each in sizes.items()}, last == done

    def is_in_flight(self, number: int) -> bool:
        """Return whether a batch is in flight, and its acknowledgement has not begun."""
        last, _ = self._records.read_last_acknowledged()
        return last < number and number in self._records.read_in_flight(self.queues.get())

    def _read_last_acknowledged(self) -> int:
        """
        Return the number of the last batch that was acknowledged in any cell, or 0.

        Raises:
            LeaseTakenOver: another process has taken over the lease.
        """
        number, holders = self._records.read_last_acknowledged()
        if holders - {self.holder.id.encode()}:
            raise LeaseTakenOver(self.name)
        return number

    def make_offset(self, number: int, queues: dict[str, int]) -> dict[str, Any]:
        """Return the offset of a batch; see ``offsets.make_offset``."""
        connection, query = self._source.connection, self._records.query
        return make_offset(connection, self.name, query, number, queues)

    def receive(self, number: int, limits: BatchLimits) -> dict[str, int]:
        """
        Return how many messages a batch has, by the label of the queue.

        Receive them if that was not done yet. Waits for ``acknowledge_soon``, unless the batch was
        received ahead and more messages are visible.

        Args:
            number: the number of the batch.

        Raises:
            CheckpointSetBack: the batch was acknowledged, so nothing is left of it.
        """
        if not self._next.is_received(number):
            self.background.finish()  # else it only acknowledges
        self.holder.check()
        ahead = self._next.take(number)
        if ahead is not None:
            if self._is_still_received(ahead):
                if not ahead.is_full:
                    self._finish_acknowledgement()
                    self._parts.fill(ahead, self.queues.get())
                if ahead.is_full:
                    self._next.expect(number + 1, limits)
                    if not self.queues.have_visible(limits.latest_ms):
                        # No progress may follow that of this batch, which then has all counts.
                        self.background.finish()
                return ahead.counts
            self.heartbeat.untrack(number)
        self._finish_acknowledgement()
        return self._receive(number, limits)

    def _finish_acknowledgement(self) -> None:
        """Finish the last acknowledgement, so that none of its messages is received again."""
        self.background.finish()
        self.acknowledgement.finish_pending()

    def _is_still_received(self, batch: BatchFill) -> bool:
        """
        Return whether a batch that was received some time ago is complete in Redis.

        Raises:
            LeaseTakenOver: another process has taken over the lease.
        """
        self._read_last_acknowledged()
        sizes = self._records.read_all_sizes(batch.number, self.queues.get())
        return batch.counts == {label: sum(each) for label, each in sizes.items()}

    def _receive(self, number: int, limits: BatchLimits) -> dict[str, int]:
        if self._searched_batch != number:
            # An earlier process, or an earlier call, may have received the batch.
            found = self._find_received(number, self.queues.get())
            if found:
                if sum(found.values()) >= limits.messages:
                    self._next.expect(number + 1, limits)
                return found
            self._searched_batch = number
        batch = BatchFill(number, limits)
        self._parts.fill(batch, self.queues.get())
        if batch.is_full:
            self._next.expect(number + 1, limits)
        if batch.counts:
            self._searched_batch = None
        else:
            self.heartbeat.untrack(number)
        return batch.counts

    def _find_received(self, number: int, queues: Sequence[PlacedQueue]) -> dict[str, int]:
        """
        Return how many messages of a batch are in Redis, by label, and extend them from now on.

        Raises:
            CheckpointSetBack: there are none, because the batch was acknowledged.
        """
        found = self._records.read_all_sizes(number, queues)
        if found:
            self._parts.extend(number, found)
        elif number <= self.holder.last_acknowledged:
            # A cell that had no messages of the batch has not stored that it is acknowledged.
            raise make_batch_acknowledged(self.name, number, self.holder.last_acknowledged)
        return {queue: sum(sizes) for queue, sizes in found.items()}

    def acknowledge(self, number: int, labels: Iterable[str]) -> None:
        """
        Delete the messages of a batch that Spark has committed, and its receipts.

        An interrupted acknowledgement is completed by the next call. The first deletion also
        stores the number of the batch, so that a checkpoint that is set back is detected.

        Args:
            number: the number of the batch.
            labels: the labels of the queues of the batch.

        Raises:
            LeaseTakenOver: another query took over the lease.
        """
        self._finish_acknowledgement()
        self.acknowledgement.acknowledge(self._make_done_batch(number, labels))

    def acknowledge_soon(self, number: int, labels: Iterable[str]) -> None:
        """
        Acknowledge a batch in a thread; the arguments are those of ``acknowledge``.

        The next call of ``acknowledge`` or ``receive_soon`` acknowledges it again if that fails.
        """
        self.acknowledgement.pending = self._make_done_batch(number, labels)
        self.background.start(self.acknowledgement.finish_pending)

    def _make_done_batch(self, number: int, labels: Iterable[str]) -> DoneBatch:
        # New queues are listed in this thread.
        stream_queues = self.queues.get() if self.acknowledgement.last is None else ()
        return DoneBatch(number, self.queues.find(labels), stream_queues)

    def receive_soon(self, number: int) -> None:
        """
        Receive a batch in a thread, if the batch before was full.

        Spark's log does not name the batch yet, as if an earlier process had received it, and
        ``receive`` finds it under its number. ``stop`` releases it. Nothing is received for a batch
        that may have to wait for more messages.

        Args:
            number: the number of the batch.
        """
        limits = self._next.start(number) if self._options.min_messages <= 1 else None
        if limits is not None:
            # New queues are listed in this thread.
            self.background.start(self._receive_ahead, number, limits, self.queues.get())

    def take_back(self, number: int) -> None:
        """Note that Spark does not get the offset of a batch, which ``stop`` releases then."""
        self._next.take_back(number)

    def has_ahead(self, number: int) -> bool:
        """Return whether a batch was received by ``receive_soon``; wait until that has ended."""
        self.background.finish()
        return self._next.is_received(number)

    def _receive_ahead(
        self, number: int, limits: BatchLimits, queues: Sequence[PlacedQueue]
    ) -> None:
        # Without the earlier acknowledgement, a successor might find three batches in flight.
        if self.acknowledgement.pending is not None or self.heartbeat.stopped.is_set():
            return
        if self._find_received(number, queues):
            return
        batch = BatchFill(number, limits)
        self._parts.fill_ahead(batch, queues)
        if batch.counts:
            self._next.note_received(batch)
        else:
            self.heartbeat.untrack(number)

    def _release_ahead(self) -> None:
        """Release the batch that was received ahead, unless a successor has the lease."""
        number = self._next.take_unlogged()
        if number is None:
            return
        try:
            self._parts.release_all(number)
        except (RedisError, RSMQError) as error:
            # A successor finds the batch; or it becomes visible after its timeout.
            log.info("Batch %s of lease %s was not released: %s", number, self.name, error)

    def receive_if_any(self, number: int, limits: BatchLimits) -> dict[str, int]:
        """
        Receive messages unless nothing has changed since the last receive, which returned none.

        Blocks for 0.05 seconds at most while nothing changes, and then sends no command.

        Args:
            number: the number of the batch.

        Returns:
            As ``receive``; empty if there are no messages.

        Raises:
            CheckpointSetBack: the batch was acknowledged, so nothing is left of it.
            LeaseTakenOver: another process has taken over the lease.
        """
        if not self.may_have_messages():
            return {}
        received = self.receive(number, limits)
        if received:
            self.idle_wait.note_received()
        else:
            self.idle_wait.note_empty(self.queues.get())
        return received

    def may_have_messages(self) -> bool:
        """
        Return whether messages may have become visible; see ``IdleWait.may_have_messages``.

        Raises:
            LeaseTakenOver: another process has taken over the lease.
        """
        self.holder.check()
        return self.idle_wait.may_have_messages(self.queues.get())

    def count_visible(self) -> int:
        """Return how many messages are visible. Begin to wait for more, without receiving them."""
        queues = self.queues.get()
        number = read_backlog(queues).lag
        self.idle_wait.note_empty(queues)
        return number

    def plan(self, number: int, counts: dict[str, int]) -> dict[str, list[int]]:
        """
        Return the sizes of the parts of a batch, by label, and extend it from now on.

        Parts that were received after Spark had logged the batch are released.

        Args:
            number: the number of the batch.
            counts: how many messages the batch had, by the label of the queue.

        Raises:
            BatchLost: a part is not in Redis any more, and ``failOnDataLoss`` is true.
            CheckpointSetBack: a part is not in Redis any more, because the batch was acknowledged.
            LeaseTakenOver: that was done by another process, which has taken over the lease.
        """
        self.holder.check()
        found = self._records.read_all_sizes(number, self.queues.find(counts))
        for label, count in counts.items():
            sizes = found.get(label, [])
            kept = _count_logged_parts(sizes, count)
            if kept is None:
                self._report_lost_batch(label, number)
            else:
                self._parts.release_behind(number, label, sizes, kept)
        if not self.heartbeat.has(number):
            self._parts.extend(number, found)
        return found

    def _report_lost_batch(self, label: str, number: int) -> None:
        acknowledged = self._read_last_acknowledged()
        if number <= acknowledged:
            raise make_batch_acknowledged(self.name, number, acknowledged)
        text = (
            f"Batch {number} of lease {self.name} is no longer in Redis: queue {label} was "
            "purged or deleted, Redis lost data, or the query was down for longer than "
            "leaseRetention"
        )
        if self._options.fail_on_data_loss:
            raise BatchLost(
                text,
                value=label,
                hint="With failOnDataLoss=false the query continues without it. Messages that are "
                "still in the queue become visible after their visibility timeout.",
            )
        log.warning("%s. The query continues without it.", text)

    def stop(self) -> None:
        """
        Stop the heartbeat, and release a named lease, so that a successor need not wait for it.

        A batch that was received ahead is released. Other messages in flight stay hidden until
        their visibility timeout.
        """
        self.idle_wait.end()
        self.heartbeat.stopped.set()
        self.background.finish()
        self._release_ahead()
        if self._options.consumer_group is not None:
            # It must not acquire the lease again.
            self.heartbeat.join(lease_holder.HOLDER_TIMEOUT_SECONDS / 3)
        self.holder.release()


def _count_logged_parts(sizes: list[int], count: int) -> int | None:
    """Return how many of the first parts have together ``count`` messages; None if none have."""
    for kept, total in enumerate(accumulate(sizes, initial=0)):
        if total == count:
            return kept
    return None
