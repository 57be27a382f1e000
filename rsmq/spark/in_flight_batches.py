"""
The batches of a stream that are received and not yet acknowledged.

Spark runs one process for each stream on the driver; the lease lives in it. Redis stores the
batches by lease, batch and part, so the next process continues where this one stopped, and no
message is received twice for one batch. A heartbeat extends the visibility timeouts while the
process lives; when it dies, other consumers can receive the messages after that timeout.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import msgpack
from redis.exceptions import RedisError

from rsmq.errors import BatchLost, LeaseTakenOver, QueueNotFound, RSMQError
from rsmq.operations.spark.in_flight_batches import (
    MAX_PART_MESSAGES,
    Batch,
    LeasedPart,
    delete_expired_leases,
    lease_messages,
    parse_part_sizes,
    release_leased,
)
from rsmq.spark import lease_holder
from rsmq.spark.acknowledgement import acknowledge_parts
from rsmq.spark.backlog import read_backlog
from rsmq.spark.batch_fill import BatchFill, BatchLimits
from rsmq.spark.connections import PlacedQueue, Server, find_placed_queue, get_servers
from rsmq.spark.heartbeat import Heartbeat
from rsmq.spark.idle_wait import IdleWait
from rsmq.spark.lease_holder import LeaseHolder
from rsmq.spark.next_batch import NextBatch
from rsmq.spark.offsets import make_offset
from rsmq.spark.source_options import SourceOptions, StreamOptions
from rsmq.spark.successive_threads import SuccessiveThreads
from rsmq.wire.refusals import make_batch_acknowledged

log = logging.getLogger(__name__)

#: How long the list of a stream's queues is reused before they are listed again.
_QUEUE_LIST_SECONDS = 10.0


@dataclass(slots=True)
class Tally:
    """
    Counts of messages since this process began.

    Attributes:
        acknowledged: messages that were deleted after their batch was done.
        lost: messages that were not deleted, because another consumer had received them meanwhile.
    """

    acknowledged: int = 0
    lost: int = 0


class Lease:
    """
    The lease of a stream: receives, extends and acknowledges its batches.

    Attributes:
        name: the name of the lease.
        tally: counts of messages since this process began.
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
        sleep: Callable[[float], None],
    ) -> None:
        """
        Change nothing in Redis; ``start`` does.

        Args:
            name: the name of the lease.
            source: the options of the source.
            options: the options of the stream.
            sleep: waits for a number of seconds, or is interrupted by an exception.
        """
        self.name = name
        # Queries of different queues may have the same name.
        self._query = name
        if options.consumer_group is not None:
            self._query += ":" + (source.pattern or ",".join(sorted(source.queues)))
        self.tally = Tally()
        self._servers = get_servers(source.connection)
        self._source = source
        self._options = options
        self._queues: list[PlacedQueue] = []
        self._listed_at = float("-inf")
        self.idle_wait = IdleWait(options.idle_wait)
        self._acknowledged: int | None = None
        self._searched_batch: int | None = None
        self._pending: tuple[int, list[str]] | None = None
        self._next = NextBatch()
        self.background = SuccessiveThreads("rsmq-ahead")
        self.holder = LeaseHolder(
            self._servers,
            name,
            self._query,
            options.lease_retention,
            sleep,
            is_named=options.consumer_group is not None,
        )
        self.heartbeat = Heartbeat(self._servers, name, self._query, self.holder, options)

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
        for queue in self.get_queues():
            queue.server.run(delete_expired_leases(queue.keys))
        if self._options.consumer_group is not None:
            self.heartbeat.start()
        elif not is_new:
            self.holder.take_over()

    def get_queues(self) -> list[PlacedQueue]:
        """
        Return the queues of the stream in each cell, without its own dead-letter queue.

        With a pattern, lists the queues again after 10 seconds, to find new ones.
        """
        is_listed = self._source.pattern is None and self._queues
        if not is_listed and time.monotonic() - self._listed_at > _QUEUE_LIST_SECONDS:
            dead_letters = self._options.dead_letters
            self._queues = [
                PlacedQueue(server, keys)
                for server in self._servers
                for keys in server.find_queues(self._source)
                if dead_letters is None or keys.name != dead_letters.queue
            ]
            self._listed_at = time.monotonic()
            if self._options.consumer_group is not None:
                self.holder.acquire(self._queues)
        return self._queues

    def _find_queue(self, label: str) -> PlacedQueue:
        return find_placed_queue(self._source.connection, label)

    def _remove_queue(self, queue: PlacedQueue) -> None:
        """Leave a deleted queue out from now on; raise QueueNotFound if the options name it."""
        if self._source.pattern is None:
            raise QueueNotFound(queue.keys.name, queue.server.namespace.name)
        self._queues = [each for each in self._queues if each != queue]

    def find_start(self) -> tuple[int, dict[str, int]]:
        """
        Return the batch after which a new checkpoint of a named lease starts.

        Returns:
            The number of the batch: the last that was acknowledged, or the one before the first
            batch in flight, whichever is higher; 0 if there is none. And, by the label of each
            queue, how many messages of this batch an interrupted acknowledgement has left.
        """
        last = max(self._read_acknowledged(server)[0] for server in self._servers)
        in_flight: set[int] = set()
        for queue in self.get_queues():
            with queue.server.naming_cell():
                fields = queue.server.raw.hkeys(queue.keys.leases)
            in_flight.update(
                int(field.split(b":")[1])
                for field in fields
                if field.startswith(f"{self.name}:".encode()) and field.count(b":") == 1
            )
        last = max(last, min(in_flight, default=1) - 1)
        remaining = self._read_part_sizes(last, self.get_queues())
        return last, {queue: sum(sizes) for queue, sizes in remaining.items()}

    def _read_acknowledged(self, server: Server) -> tuple[int, bytes | None]:
        """Return the number of the last batch that was acknowledged, or 0; and the holder."""
        with server.naming_cell():
            stored = server.raw.hget(server.namespace.acknowledged, self._query)
        record: list[Any] = [0] if stored is None else msgpack.unpackb(stored, raw=True)
        return int(record[0]), dict(enumerate(record)).get(3)  # without a holder it has three items

    def _read_last_acknowledged(self) -> int:
        """
        Return the number of the last batch that was acknowledged in any cell, or 0.

        Raises:
            LeaseTakenOver: another process has taken over the lease.
        """
        records = [self._read_acknowledged(server) for server in self._servers]
        if {holder for _, holder in records} - {None, self.holder.id.encode()}:
            raise LeaseTakenOver(self.name)
        return max(number for number, _ in records)

    def make_offset(self, number: int, queues: dict[str, int]) -> dict[str, Any]:
        """Return the offset of a batch; see ``offsets.make_offset``."""
        return make_offset(self._source.connection.cells, self.name, self._query, number, queues)

    def receive(self, number: int, limits: BatchLimits) -> dict[str, int]:
        """
        Return how many messages a batch has, by the label of the queue.

        Receive them if that was not done yet. Waits for ``acknowledge_soon``, unless the batch was
        received ahead and more messages are visible.

        Args:
            number: the number of the batch.
            limits: the limits of the batch.

        Raises:
            CheckpointSetBack: the batch was acknowledged, so nothing is left of it.
        """
        if not self._next.is_received(number):
            self.background.finish()
        self.holder.check()
        ahead = self._next.take(number)
        if ahead is not None:
            if self._is_still_received(ahead):
                if not ahead.is_full:
                    # Otherwise messages whose timeout has ended might be received again.
                    self.background.finish()
                    self._fill(ahead)
                if ahead.is_full:
                    self._next.expect(number + 1, limits)
                    if not self._has_visible(limits.latest_ms):
                        # No progress may follow that of this batch, which then has all counts.
                        self.background.finish()
                return ahead.counts
            self.heartbeat.untrack(number)
            self.background.finish()
        return self._receive(number, limits)

    def _has_visible(self, latest_ms: int | None) -> bool:
        """Return whether messages became visible until a Unix time in ms, or until now."""
        for queue in self.get_queues():
            with queue.server.naming_cell():
                until = latest_ms or queue.server.now_ms()
                if queue.server.raw.zcount(queue.keys.zset, "-inf", until):
                    return True
        return False

    def _is_still_received(self, batch: BatchFill) -> bool:
        """
        Return whether a batch that was received some time ago is complete in Redis.

        Raises:
            LeaseTakenOver: another process has taken over the lease.
        """
        self._read_last_acknowledged()
        sizes = self._read_part_sizes(batch.number, self.get_queues())
        return batch.counts == {label: sum(each) for label, each in sizes.items()}

    def _receive(self, number: int, limits: BatchLimits) -> dict[str, int]:
        if self._searched_batch != number:
            # An earlier process, or an earlier call, may have received the batch.
            found = self._find_received(number)
            if found:
                if sum(found.values()) >= limits.messages:
                    self._next.expect(number + 1, limits)
                return found
            self._searched_batch = number
        batch = BatchFill(number, limits)
        self._fill(batch)
        if batch.is_full:
            self._next.expect(number + 1, limits)
        if batch.counts:
            self._searched_batch = None
        else:
            self.heartbeat.untrack(number)
        return batch.counts

    def _find_received(self, number: int) -> dict[str, int]:
        """
        Return how many messages of a batch are in Redis, by label, and extend them from now on.

        Raises:
            CheckpointSetBack: there are none, because the batch was acknowledged.
        """
        found = self._read_part_sizes(number, self.get_queues())
        if found:
            self._track_batch(number, found)
            self.heartbeat.extend()
        elif number <= self.holder.last_acknowledged:
            # A cell that had no messages of the batch has not stored that it is acknowledged.
            raise make_batch_acknowledged(self.name, number, self.holder.last_acknowledged)
        return {queue: sum(sizes) for queue, sizes in found.items()}

    def _fill(self, batch: BatchFill) -> None:
        """Receive messages for a batch, until it is full or there are no more."""
        batch.fill(
            self.get_queues(),
            lambda queue, part, limits: self._receive_part(batch.number, queue, part, limits),
            self.heartbeat.stopped.is_set,
        )

    def acknowledge_soon(self, number: int, labels: Iterable[str]) -> None:
        """
        Acknowledge a batch in a thread; the arguments are those of ``acknowledge``.

        The next call of ``acknowledge`` or ``receive_soon`` acknowledges it again if that fails.
        """
        self._pending = number, list(labels)
        self.background.start(self._acknowledge_pending)

    def is_acknowledged(self, number: int) -> bool:
        """Return whether this process has acknowledged a batch last, or does it now."""
        pending = self._pending  # read first: the thread clears it last
        return (pending is not None and pending[0] == number) or self._acknowledged == number

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
            self.get_queues()  # lists new queues in this thread
            self.background.start(self._receive_ahead, number, limits)

    def has_ahead(self, number: int) -> bool:
        """Return whether a batch was received by ``receive_soon``; wait until that has ended."""
        self.background.finish()
        return self._next.is_received(number)

    def _receive_ahead(self, number: int, limits: BatchLimits) -> None:
        # Without the earlier acknowledgement, a successor might find three batches in flight.
        if self._pending is not None or self.heartbeat.stopped.is_set():
            return
        if self._find_received(number):
            return
        batch = BatchFill(number, limits)
        self._fill(batch)
        if batch.counts:
            self._next.note_received(batch)
        else:
            self.heartbeat.untrack(number)

    def _acknowledge_pending(self) -> None:
        if self._pending is not None:
            self._acknowledge(*self._pending)
            self._pending = None

    def _release_ahead(self) -> None:
        """Release the batch that was received ahead, unless a successor has the lease."""
        number = self._next.take_unlogged()
        if number is None:
            return
        for queue, part in reversed(self.heartbeat.parts_of(number)):
            try:
                self._release_part(queue, number, part)
            except (RedisError, RSMQError) as error:
                # A successor finds the batch; or it becomes visible after its timeout.
                log.info("Batch %s of lease %s was not released: %s", number, self.name, error)
                return

    def _release_part(self, queue: PlacedQueue, number: int, part: int) -> None:
        queue.server.run(
            release_leased(
                queue.server.namespace,
                queue.keys,
                Batch(self.name, number),
                part,
                query=self._query,
                holder=self.holder.id,
                has_policy=self._options.dead_letters is not None,
            )
        )

    def _receive_part(
        self, number: int, queue: PlacedQueue, part: int, limits: BatchLimits
    ) -> LeasedPart:
        """Receive a part of a batch."""
        # Tracked before the call, because the call may receive messages and then fail.
        self.heartbeat.track(number, queue, [part])
        operation = lease_messages(
            queue.server.namespace,
            queue.keys,
            Batch(self.name, number),
            part,
            min(limits.messages, MAX_PART_MESSAGES),
            max_bytes=min(limits.size, self._source.max_bytes),
            # A body may be larger than all limits, so the first of each queue is received anyway.
            is_first=part == 0 or limits.size >= self._source.max_bytes,
            vt=self._options.vt,
            latest_ms=limits.latest_ms,
            lifetime=self._options.lease_retention,
            dead_letters=self._options.dead_letters,
            query=self._query,
            holder=self.holder.id,
        )
        try:
            return queue.server.run(operation)
        except QueueNotFound:
            self._remove_queue(queue)
            return LeasedPart(0, 0, may_have_more=False)

    def receive_if_any(self, number: int, limits: BatchLimits) -> dict[str, int]:
        """
        Receive messages unless nothing has changed since the last receive, which returned none.

        Blocks for 0.05 seconds at most while nothing changes, and then sends no command.

        Args:
            number: the number of the batch.
            limits: the limits of the batch.

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
            self.idle_wait.note_empty(self.get_queues())
        return received

    def may_have_messages(self) -> bool:
        """
        Return whether messages may have become visible; see ``IdleWait.may_have_messages``.

        Raises:
            LeaseTakenOver: another process has taken over the lease.
        """
        self.holder.check()
        return self.idle_wait.may_have_messages(self.get_queues())

    def count_visible(self) -> int:
        """Return how many messages are visible. Begin to wait for more, without receiving them."""
        queues = self.get_queues()
        number = read_backlog(queues).lag
        self.idle_wait.note_empty(queues)
        return number

    def _read_part_sizes(self, number: int, queues: Iterable[PlacedQueue]) -> dict[str, list[int]]:
        """Return the sizes of the parts of a batch, by label, as Redis stores them."""
        found = {queue.label: self._read_sizes(number, queue) for queue in queues}
        return {label: sizes for label, sizes in found.items() if sizes}

    def _read_sizes(self, number: int, queue: PlacedQueue) -> list[int]:
        field = str(Batch(self.name, number))
        with queue.server.naming_cell():
            return parse_part_sizes(queue.server.raw.hget(queue.keys.leases, field))

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
        found = self._read_part_sizes(number, map(self._find_queue, counts))
        for label, count in counts.items():
            sizes = found.get(label, [])
            kept = _count_logged_parts(sizes, count)
            if kept is None:
                self._report_lost_batch(label, number)
            else:
                self._release_parts(number, label, sizes, kept)
        if not self.heartbeat.has(number):
            self._track_batch(number, found)
            self.heartbeat.extend()
        return found

    def _release_parts(self, number: int, label: str, sizes: list[int], kept: int) -> None:
        """Release the parts of a batch behind the first ``kept`` ones; remove their sizes."""
        queue = self._find_queue(label)
        while len(sizes) > kept:
            self._release_part(queue, number, len(sizes) - 1)
            del sizes[-1]

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
        self.background.finish()
        self._acknowledge_pending()
        self._acknowledge(number, labels)

    def _acknowledge(self, number: int, labels: Iterable[str]) -> None:
        if self._acknowledged == number:
            return
        self.holder.check()
        queues = [self._find_queue(label) for label in labels]
        if self._acknowledged is None and number > 1:
            # An earlier process may have stopped while it acknowledged the batch before.
            for queue in dict.fromkeys([*queues, *self.get_queues()]):
                self._acknowledge_parts(queue, number - 1, len(self._read_sizes(number - 1, queue)))
        batch = Batch(self.name, number)
        # A listener on the driver may have acknowledged the batch.
        servers = dict.fromkeys(queue.server for queue in queues)
        is_new = {server: self._read_acknowledged(server)[0] < number for server in servers}
        for queue in queues:
            sizes = self._read_sizes(number, queue)
            if is_new[queue.server] and not sizes and self.heartbeat.has(number):
                log.warning("Batch %s of queue %s is not in Redis any more.", batch, queue.label)
            self._acknowledge_parts(queue, number, max(1, len(sizes)))
        self.heartbeat.untrack(number)
        self._acknowledged = number

    def _acknowledge_parts(self, queue: PlacedQueue, number: int, parts: int) -> None:
        if parts:
            deleted, lost = acknowledge_parts(
                queue,
                Batch(self.name, number),
                parts,
                query=self._query,
            )
            self.tally.acknowledged += deleted
            self.tally.lost += lost

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

    def _track_batch(self, number: int, found: dict[str, list[int]]) -> None:
        """Let the heartbeat extend a batch from now on."""
        for label, sizes in found.items():
            self.heartbeat.track(number, self._find_queue(label), range(len(sizes)))


def _count_logged_parts(sizes: list[int], count: int) -> int | None:
    """Return how many of the first parts have together ``count`` messages; None if none have."""
    for kept, total in enumerate(accumulate(sizes, initial=0)):
        if total == count:
            return kept
    return None
