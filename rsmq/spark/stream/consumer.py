"""
The consumer of a stream: it receives, extends and acknowledges the batches of a query.

Spark runs one process for each stream on the driver; the consumer lives in it. Redis stores the
batches by stream, batch and part, so the next process continues where this one stopped, and no
message is received twice for one batch. A heartbeat extends the visibility timeouts while the
process lives; when it dies, other consumers can receive the messages after that timeout.

``batches.py`` explains the states of a batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from itertools import accumulate

from rsmq.errors import BatchLost, InvalidOption, LeaseTakenOver
from rsmq.errors.guarded_log import get_logger
from rsmq.spark.connections import SparkQueue
from rsmq.spark.operations.batches import LeasedPart, delete_expired_leases, keep_acknowledged
from rsmq.spark.stream import ownership
from rsmq.spark.stream.background import SigtermHandler, SuccessiveThreads, Timer
from rsmq.spark.stream.batches import (
    BatchesInFlight,
    BatchEvent,
    BatchFill,
    BatchLimits,
    BatchState,
)
from rsmq.spark.stream.ownership import Ownership
from rsmq.spark.stream.parts import BatchParts
from rsmq.spark.stream.records import BatchRecords, QueueCounts, StreamIdentity
from rsmq.spark.stream.stream_queues import IdleWait, StreamEntry, StreamQueues, read_backlog
from rsmq.wire.refusals import make_batch_acknowledged
from rsmq.wire.streams import NOTE_SECONDS

log = get_logger(__name__)


class StreamConsumer:
    """
    The consumer of a stream, in the process of its query.

    Attributes:
        heartbeat: extends the parts in flight, and renews the ownership of a name.
        background: the threads of the work ahead.
    """

    def __init__(self, stream: StreamIdentity, sigterm: SigtermHandler) -> None:
        self.stream = stream
        self.name = stream.name
        self.idle_wait = IdleWait(stream.options.idle_wait)
        self.background = SuccessiveThreads("rsmq-ahead")
        self.heartbeat = Timer(
            "rsmq-lease", f"The heartbeat of stream {self.name}", min(1.0, stream.options.vt / 10)
        )
        self.ownership = Ownership(stream, sigterm.sleep)
        self.queues = StreamQueues(stream, self.ownership.acquire)
        self.records = BatchRecords(stream)
        self.batches = BatchesInFlight()
        self.entry = StreamEntry(stream, self.queues)
        self.parts = BatchParts(
            stream, self.batches, self.records, self.queues, self.ownership, self.entry
        )
        self._sigterm = sigterm
        self._delay_ends_at: float | None = None

    def start(self, *, is_new: bool) -> None:
        """
        Take over the stream from processes that have had it before, and delete what has expired.

        A consumer group is acquired first, which waits until no other query renews it. ``stop``
        releases it, also if this call is interrupted.

        Args:
            is_new: whether this process has generated the name, so that no other one has had it.

        Raises:
            InvalidOption: another query that lives has acquired the name.
            QueueNotFound: a queue that the options name does not exist.
        """
        for queue in self.queues.get():
            queue.server.rsmq.run(delete_expired_leases(queue.keys))
        if self.stream.is_named:
            self.heartbeat.call_every(ownership.HOLDER_TIMEOUT_SECONDS / 3, self.ownership.renew)
        elif not is_new:
            self.ownership.take_over()
        self.heartbeat.call_every(
            self.stream.options.lease_retention / 4, self._keep_last_acknowledged
        )
        self.heartbeat.call_every(self.stream.options.vt / 3, self.parts.extend)
        self.entry.write()
        self.heartbeat.call_every(NOTE_SECONDS, self.entry.write)
        self.heartbeat.start()

    def _keep_last_acknowledged(self) -> None:
        for server in self.stream.servers:
            server.rsmq.run(keep_acknowledged(server.namespace, self.stream.query))

    def receive(self, number: int, limits: BatchLimits) -> QueueCounts:
        """
        Return how many messages a batch has; receive them if that was not done yet.

        Waits for ``commit``, unless the batch was received ahead and more messages are visible.

        Raises:
            CheckpointSetBack: the batch was acknowledged, so nothing is left of it.
            LeaseTakenOver: another process has taken over the stream.
        """
        self.ownership.check()
        fill = self.batches.get(number).fill
        if fill is not None and not self._is_in_redis(fill):
            self.batches.change(number, BatchEvent.LOSE)
            fill = None
        is_ahead = fill is not None
        if fill is None or not fill.is_full:
            self.background.finish()
            self.parts.acknowledge_done()  # else its messages might be received again
            fill = self._receive(fill or BatchFill(number, limits))
        if fill.is_full:
            self.batches.change(number + 1, BatchEvent.EXPECT, limits=limits)
            if is_ahead and not self.queues.have_visible(limits.latest_ms):
                # No progress may follow that of this batch, which then has all counts.
                self.background.finish()
        if fill.counts:
            if self.batches.change(number, BatchEvent.REPLY):
                self.entry.received.update(fill.counts)
            if self.stream.options.min_messages > 1:
                self._delay_ends_at = time.monotonic() + self.stream.options.max_trigger_delay
        return fill.counts

    def _is_in_redis(self, fill: BatchFill) -> bool:
        """Return whether a batch that was received some time ago is complete in Redis."""
        self._read_last_acknowledged()
        return fill.counts == self.records.read_counts(fill.number, self.queues.get())

    def _read_last_acknowledged(self) -> int:
        last = self.records.read_acknowledged()
        if last.holders - {self.stream.holder.encode()}:
            raise LeaseTakenOver(self.name)
        return last.number

    def _receive(self, fill: BatchFill) -> BatchFill:
        """Receive a batch, or what is left of it, unless an earlier process has received it."""
        number, queues = fill.number, self.queues.get()
        is_searched = self.batches.get(number).state is BatchState.EMPTY or bool(fill.counts)
        self.batches.change(number, BatchEvent.RECEIVE)
        if is_searched or not self._find_received(fill, queues):
            self._fill(fill, queues)
        self.batches.change(number, BatchEvent.COMPLETE if fill.counts else BatchEvent.FIND_NONE)
        return fill

    def _find_received(self, fill: BatchFill, queues: Sequence[SparkQueue]) -> bool:
        """Return whether Redis has parts of a batch, and extend them from now on."""
        self._refuse_acknowledged(fill.number)
        found = self.records.read_sizes(fill.number, queues)
        if found:
            self.parts.extend_found(fill.number, found)
            fill.adopt(found)
        return bool(found)

    def _refuse_acknowledged(self, number: int) -> None:
        """
        Refuse a batch that an earlier process has acknowledged.

        Its sizes are left, if that was interrupted. A namespace that had no messages of it has not
        stored that it is acknowledged.
        """
        if number <= self.ownership.last_acknowledged:
            raise make_batch_acknowledged(self.name, number, self.ownership.last_acknowledged)

    def _fill(
        self, fill: BatchFill, queues: Sequence[SparkQueue], latest_ms: int | None = None
    ) -> None:
        """
        Receive messages of queues for a batch, until it is full or there are no more.

        Args:
            latest_ms: the Unix time in ms until which they must have become visible, beside the
                limits of the batch; None is the present.
        """
        received: list[LeasedPart] = []
        for queue, part, limits in fill.divide(queues, received):
            if self.heartbeat.stopped.is_set() or self._sigterm.has_arrived():
                break
            received.append(self.parts.receive(fill.number, queue, part, limits.until(latest_ms)))

    def receive_if_any(self, number: int, limits: BatchLimits) -> QueueCounts:
        """
        Receive messages unless nothing has changed since the last receive, which returned none.

        Receives nothing either while fewer wait than ``minMessagesPerTrigger`` demands. Blocks for
        0.05 seconds at most while nothing changes, and then sends no command. The result and the
        errors are those of ``receive``.
        """
        self.ownership.check()
        may_receive = self.idle_wait.may_have_messages(self.queues.get())
        if self._delay_ends_at is not None:
            may_receive = self._is_delay_over(self._delay_ends_at, has_changed=may_receive)
        if not may_receive:
            return {}
        received = self.receive(number, limits)
        if received:
            self.idle_wait.end(has_received=True)
        else:
            self.idle_wait.note_empty(self.queues.get())
        return received

    def _is_delay_over(self, end_at: float, *, has_changed: bool) -> bool:
        """
        Return whether the next batch need not wait for more messages.

        The delay follows each batch until enough messages are visible or its longest time is over.
        The first batch of a process is never delayed, as in Spark's source for Kafka: it may have
        been received before a crash.
        """
        if time.monotonic() < end_at:
            if not has_changed:
                return False
            queues = self.queues.get()
            backlog = read_backlog(queues)
            waiting = backlog.lag if self.stream.options.has_rows else backlog.visible
            self.idle_wait.note_empty(queues)  # begins to wait for more, without receiving them
            if waiting < self.stream.options.min_messages:
                return False
        self._delay_ends_at = None
        self.idle_wait.end()
        return True

    def plan(self, number: int, counts: QueueCounts) -> dict[SparkQueue, list[int]]:
        """
        Return the sizes of the parts of a batch, by queue, and extend it from now on.

        Parts that were received after Spark had logged the batch are released: ``counts`` are those
        of its offset.

        Raises:
            InvalidOption: a queue is of a namespace that ``ns`` does not name (any more).
            BatchLost: a part is not in Redis any more, and ``failOnDataLoss`` is true.
            CheckpointSetBack: a part is not in Redis any more, because the batch was acknowledged.
            LeaseTakenOver: that was done by another process, which has taken over the stream.
        """
        self.ownership.check()
        if counts:  # the first batch of a query has none, and no messages
            self._refuse_acknowledged(number)
        self.batches.change(number, BatchEvent.PLAN)
        self.parts.planned_at.setdefault(number, time.monotonic())
        self._refuse_other_namespaces(number, counts)
        found = self.records.read_sizes(number, counts)
        for queue, count in counts.items():
            sizes = found.get(queue, [])
            totals = list(accumulate(sizes, initial=0))  # of the first parts
            if count not in totals:
                self.batches.change(number, BatchEvent.LOSE)
                self._report_lost_batch(queue.label, number)
                continue
            while totals[-1] > count:
                self.parts.release(number, queue, len(sizes) - 1)
                del sizes[-1], totals[-1]
        if not self.batches.get(number).parts:
            self.parts.extend_found(number, found)
        return found

    def _refuse_other_namespaces(self, number: int, counts: QueueCounts) -> None:
        """Refuse an unfinished batch with messages of namespaces that are not taken over."""
        for queue in counts:
            if queue.server not in self.stream.servers:
                ns = queue.server.namespace.name
                raise InvalidOption(
                    "ns",
                    f"batch {number} of the checkpoint is not finished, and has messages of "
                    f"{ns!r}. Name this namespace too until the batch is done.",
                    value=ns,
                )

    def _report_lost_batch(self, label: str, number: int) -> None:
        acknowledged = self._read_last_acknowledged()
        if number <= acknowledged:
            raise make_batch_acknowledged(self.name, number, acknowledged)
        text = (
            f"Batch {number} of stream {self.name} is no longer in Redis: queue {label} was "
            "purged or deleted, Redis lost data, such as in a failover, or the query was down for "
            "longer than leaseRetention"
        )
        if self.stream.options.fail_on_data_loss:
            raise make_batch_lost(text, label)
        log.warning("%s. The query continues without it.", text)

    def commit(self, number: int, counts: QueueCounts) -> None:
        """
        Delete the messages of a batch that Spark has committed, and its receipts.

        A thread does it, if the next batch was received ahead. An interrupted acknowledgement is
        completed by the next call. The first deletion also stores the number of the batch, so that
        a checkpoint that is set back is detected.

        Raises:
            LeaseTakenOver: another query took over the stream.
        """
        self.background.finish()
        is_ahead = self.batches.get(number + 1).state is BatchState.RECEIVED
        self._note_done(number, counts)
        if is_ahead:
            self.background.start(self.parts.acknowledge_done)
        else:
            self.parts.acknowledge_done()

    def _note_done(self, number: int, counts: QueueCounts) -> None:
        earlier: Iterable[SparkQueue] = ()
        if number > 1 and not self.batches.find(BatchState.DONE, BatchState.ACKNOWLEDGED):
            # An earlier process may have stopped while it acknowledged the batch before, which may
            # be of any queues of the stream. New ones are listed in this thread.
            earlier = dict.fromkeys([*counts, *self.queues.get()])
        self.batches.change(number, BatchEvent.COMMIT, queues=counts, earlier_queues=earlier)

    def work_ahead(self, number: int, counts: QueueCounts, ahead: int) -> None:
        """
        Work in a thread while tasks run: acknowledge the batch ``number``, and receive ``ahead``.

        The acknowledgement is needed if an earlier process has stopped before it. The other batch
        is received if the one before was full, but not if it may have to wait for more messages.
        Spark's log does not name it yet, as if an earlier process had received it, and ``receive``
        finds it under its number.
        """
        if self.batches.get(number).state not in (BatchState.DONE, BatchState.ACKNOWLEDGED):
            self._note_done(number, counts)
            self.background.start(self.parts.acknowledge_done)
        limits = self.batches.get(ahead).limits
        if limits is not None and self.stream.options.min_messages <= 1:
            self.batches.change(ahead, BatchEvent.RECEIVE)
            # New queues are listed in this thread.
            self.background.start(self._receive_ahead, BatchFill(ahead, limits), self.queues.get())

    def _receive_ahead(self, fill: BatchFill, queues: Sequence[SparkQueue]) -> None:
        # Without the earlier acknowledgement, a successor might find three batches in flight.
        if self.batches.find(BatchState.DONE) or self.heartbeat.stopped.is_set():
            return
        if self._find_received(fill, queues):
            return
        # Tasks process the batch before, whose timeouts may end, if Redis or this process stops for
        # a while: nothing of it is received again.
        until_ms = self.batches.find_hidden_until(fill.number - 1)
        self._fill(fill, queues, None if until_ms is None else until_ms - 1)
        event = BatchEvent.COMPLETE if fill.counts else BatchEvent.FIND_NONE
        self.batches.change(fill.number, event, fill=fill)

    def stop(self) -> None:
        """
        Stop the heartbeat, and release its name, so that a successor need not wait for it.

        A batch that this process has received, and Spark does not know, is released. Other
        messages in flight stay hidden until their visibility timeout.
        """
        self.idle_wait.end()
        self.heartbeat.stopped.set()
        self.background.finish()
        self.parts.release_unlogged()
        if self.stream.is_named and self.heartbeat.is_alive():
            # It must not acquire the name again.
            self.heartbeat.join(ownership.HOLDER_TIMEOUT_SECONDS / 3)
        self.ownership.release()
        self.entry.delete()


def make_batch_lost(text: str, queue: str) -> BatchLost:
    """Return the error of a query that needs messages of a queue which are no longer in Redis."""
    return BatchLost(
        text,
        value=queue,
        hint="With failOnDataLoss=false the query continues without it. Messages that are still in "
        "the queue become visible after their visibility timeout.",
    )
