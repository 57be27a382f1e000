"""
The heartbeat of a stream: it extends the visibility timeouts of the parts in flight.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Sequence

from redis.exceptions import RedisError, ResponseError

from rsmq.errors import CellFailed, RSMQError
from rsmq.spark.connections import PlacedQueue, SparkServer
from rsmq.spark.operations.batches import Batch, extend_leased, keep_acknowledged
from rsmq.spark.read.source_options import StreamOptions
from rsmq.spark.stream import lease_holder
from rsmq.spark.stream.lease_holder import LeaseHolder

log = logging.getLogger(__name__)


class LeaseHeartbeat:
    """
    A thread that extends the parts in flight, and renews a named lease.

    Attributes:
        stopped: set when it is to end; then nothing more is received either.
    """

    def __init__(
        self,
        servers: Sequence[SparkServer],
        lease: str,
        query: str,
        holder: LeaseHolder,
        options: StreamOptions,
    ) -> None:
        """
        Start nothing.

        Args:
            servers: the server of each cell, or the only one.
            query: the name of the query, for all its queues.
            holder: this process as the holder of the lease.
        """
        self.stopped = threading.Event()
        self._servers = servers
        self._lease = lease
        self._query = query
        self._holder = holder
        self._options = options
        self._is_named = options.consumer_group is not None
        self._lock = threading.Lock()
        # By batch and part, until when the messages are hidden at least; 0 if that is unknown.
        self._in_flight: dict[int, dict[tuple[PlacedQueue, int], int]] = {}
        self._thread: threading.Thread | None = None

    def track(self, number: int, queue: PlacedQueue, parts: Iterable[int]) -> None:
        """
        Extend parts from now on.

        Args:
            number: the number of their batch.
        """
        with self._lock:
            tracked = self._in_flight.setdefault(number, {})
            for part in parts:
                tracked.setdefault((queue, part), 0)
        self.start()

    def untrack(self, number: int) -> None:
        """Extend no part of a batch any longer."""
        with self._lock:
            self._in_flight.pop(number, None)

    def note_hidden(self, number: int, queue: PlacedQueue, part: int, until_ms: int) -> None:
        """
        Note until when the messages of a part are hidden at least.

        Args:
            number: the number of their batch.
            until_ms: the Unix time in ms, as the server counts it.
        """
        with self._lock:
            tracked = self._in_flight.get(number, {})
            if (queue, part) in tracked:
                tracked[queue, part] = until_ms

    def find_hidden_until(self, number: int, queue: PlacedQueue) -> int | None:
        """
        Return the Unix time in ms until when a batch's messages in a queue are hidden at least.

        It is 0 if that is unknown, and None if the batch has no parts in the queue.
        """
        with self._lock:
            tracked = self._in_flight.get(number, {})
            return min((until for part, until in tracked.items() if part[0] == queue), default=None)

    def has(self, number: int) -> bool:
        """Return whether parts of a batch are extended."""
        return number in self._in_flight

    def parts_of(self, number: int) -> list[tuple[PlacedQueue, int]]:
        """Return the parts of a batch that are extended."""
        with self._lock:
            return list(self._in_flight.get(number, ()))

    def start(self) -> None:
        """Start the thread, unless it was started before."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="rsmq-lease", daemon=True)
            self._thread.start()

    def join(self, seconds: float | None = None) -> None:
        """Wait until the thread has ended, but no longer than some seconds."""
        if self._thread is not None:
            self._thread.join(seconds)

    def is_alive(self) -> bool:
        """Return whether the thread was started and has not ended."""
        return self._thread is not None and self._thread.is_alive()

    def _run(self) -> None:
        extend_at = time.monotonic() + self._options.vt / 3
        keep_at = time.monotonic() + self._options.lease_retention / 4
        pause = self._options.vt / 3
        if self._is_named:
            pause = lease_holder.HOLDER_TIMEOUT_SECONDS / 3
        while not self.stopped.wait(max(0.01, min(pause, extend_at - time.monotonic()))):
            try:
                if self._is_named:
                    self._holder.renew()
                if time.monotonic() >= keep_at:
                    self._keep_acknowledged()
                    keep_at = time.monotonic() + self._options.lease_retention / 4
                if time.monotonic() >= extend_at:
                    self.extend()
                    extend_at = time.monotonic() + self._options.vt / 3
            except (RedisError, RSMQError) as error:
                extend_at = time.monotonic() + min(1.0, self._options.vt / 10)
                log.warning(
                    "The heartbeat of lease %s failed, and is repeated: %s", self._lease, error
                )

    def _keep_acknowledged(self) -> None:
        for server in self._servers:
            server.run(keep_acknowledged(server.namespace, self._query))

    def extend(self) -> None:
        """Extend the visibility timeouts and the receipts of all parts in flight."""
        with self._lock:
            in_flight = [
                (number, *part) for number, parts in self._in_flight.items() for part in parts
            ]
        failure: Exception | None = None
        failed: set[SparkServer] = set()
        for number, queue, part in in_flight:
            # It may be acknowledged meanwhile.
            if number not in self._in_flight or queue.server in failed:
                continue
            operation = extend_leased(
                queue.keys,
                Batch(self._lease, number),
                part,
                vt=self._options.vt,
                lifetime=self._options.lease_retention,
            )
            try:
                _, _, until_ms = queue.server.run(operation)
                self.note_hidden(number, queue, part, until_ms)
            except (RedisError, CellFailed) as error:  # the others must still be extended
                failure = error
                if not isinstance(error.__cause__ or error, ResponseError):  # not of one queue
                    failed.add(queue.server)
        if failure is not None:
            raise failure
