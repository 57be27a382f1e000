"""
The process that holds the lease of a stream: no other process may receive for it.

A query without a name takes over its lease when it starts. A consumer group is acquired on each
queue and renewed, so a second live query of the name is refused.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterable, Sequence

from redis.exceptions import RedisError

from rsmq.errors import InvalidOption, LeaseTakenOver, QueueNotFound, RSMQError
from rsmq.spark.connections import PlacedQueue, SparkServer
from rsmq.spark.operations.batches import (
    acquire_lease,
    release_lease,
    take_over_lease,
)

log = logging.getLogger(__name__)

#: How long a named lease belongs to its holder after the last renewal.
HOLDER_TIMEOUT_SECONDS = 15.0


class LeaseHolder:
    """
    This process as the holder of a lease.

    Attributes:
        last_acknowledged: the number of the last batch that was acknowledged in any cell before
            this process took the lease over; 0 if there is none.
    """

    def __init__(
        self,
        servers: Sequence[SparkServer],
        lease: str,
        query: str,
        lifetime: float,
        sleep: Callable[[float], None],
        *,
        is_named: bool,
    ) -> None:
        """
        Generate an id; nothing is acquired.

        Args:
            servers: the server of each cell, or the only one.
            query: the name of the query, for all its queues.
            lifetime: how long the lease is stored after its last renewal, seconds.
            sleep: waits for a number of seconds, or is interrupted by an exception.
            is_named: whether the name is a consumer group.
        """
        self.id = secrets.token_hex(8)
        self.last_acknowledged = 0
        self._servers = servers
        self._lease = lease
        self._query = query
        self._lifetime = lifetime
        self._sleep = sleep
        self._is_named = is_named
        self._acquired_queues: set[PlacedQueue] = set()
        self._missing_queues: set[PlacedQueue] = set()  # deleted since they were acquired
        self._tried_queues: set[PlacedQueue] = set()  # as an interrupted call may have succeeded
        self._is_taken_over = False
        self._renewed_at = time.monotonic()

    def take_over(self) -> None:
        """Refuse the receives of every other process from now on."""
        for server in self._servers:
            operation = take_over_lease(server.namespace, self._query, self.id)
            self.last_acknowledged = max(self.last_acknowledged, server.run(operation))

    def acquire(self, queues: Iterable[PlacedQueue]) -> None:
        """
        Acquire a named lease on queues, as soon as the time of a previous holder is over.

        Queues on which it is acquired already are left out.

        Raises:
            InvalidOption: another query has renewed it meanwhile, so it lives.
        """
        if not self._is_named:
            return
        new = [
            queue
            for queue in queues
            if queue not in self._acquired_queues or queue in self._missing_queues
        ]
        self._tried_queues.update(new)
        asked_at = time.monotonic()
        end_at: float | None = None  # of the time of the holder, if it does not renew the lease
        while seconds := self._try_acquire(new):
            # The server has answered between ``asked_at`` and now.
            if end_at is None:
                end_at = time.monotonic() + seconds
            elif asked_at + seconds > end_at + HOLDER_TIMEOUT_SECONDS / 15:
                raise InvalidOption(
                    "consumerGroup",
                    f"another query that is running has the lease {self._lease}. Give this query "
                    "another name or none, or stop the other.",
                    value=self._lease,
                )
            self._sleep(min(seconds, HOLDER_TIMEOUT_SECONDS / 15))
            asked_at = time.monotonic()
        if new:
            self.take_over()
        self._acquired_queues.update(new)

    def _try_acquire(self, queues: Iterable[PlacedQueue]) -> float:
        """
        Acquire or renew the lease on each of the queues that has no other holder.

        Returns:
            For how many seconds another holder has one of them; 0 if this one has all.
        """
        longest = 0.0
        for queue in queues:
            operation = acquire_lease(
                queue.keys,
                self._lease,
                self.id,
                seconds=HOLDER_TIMEOUT_SECONDS,
                lifetime=self._lifetime,
            )
            try:
                longest = max(longest, queue.server.run(operation))
                self._missing_queues.discard(queue)
            except QueueNotFound:
                self._missing_queues.add(queue)  # reading the queue raises the error
        return longest

    def renew(self) -> None:
        """Renew the lease on its queues; ``check`` raises an error if another process has it."""
        self._renewed_at = time.monotonic()
        if self._try_acquire(list(self._acquired_queues)):
            self._is_taken_over = True

    def check(self) -> None:
        """
        Check that the lease belongs to this process, if it is a consumer group.

        Raises:
            LeaseTakenOver: another process has the lease.
        """
        if self._is_named and time.monotonic() - self._renewed_at > HOLDER_TIMEOUT_SECONDS / 2:
            self.renew()  # the process may have been suspended for some time
        if self._is_taken_over:
            raise LeaseTakenOver(self._lease)

    def release(self) -> None:
        """Release a named lease, so that a successor need not wait for the end of its time."""
        failed: set[SparkServer] = set()
        for queue in self._tried_queues:
            if queue.server in failed:
                continue
            try:
                queue.server.run(release_lease(queue.keys, self._lease, self.id))
            except (RedisError, RSMQError) as error:  # the successor waits
                failed.add(queue.server)
                log.warning("The lease %s was not released: %s", self._lease, error)
