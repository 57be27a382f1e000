"""
The process that owns a stream: no other process may receive for it.

A query without a name takes over its stream when it starts. A consumer group is acquired on each
queue and renewed, so a second live query of the name is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from redis.exceptions import RedisError

from rsmq.errors import InvalidOption, LeaseTakenOver, QueueNotFound, RSMQError
from rsmq.errors.guarded_log import get_logger
from rsmq.spark.connections import SparkQueue, SparkServer
from rsmq.spark.operations.batches import acquire_ownership, release_ownership, take_over_ownership
from rsmq.spark.stream.records import StreamIdentity

log = get_logger(__name__)

#: How long a name belongs to its holder after the last renewal.
HOLDER_TIMEOUT_SECONDS = 15.0


class Ownership:
    """
    The ownership of a stream by this process.

    Attributes:
        last_acknowledged: the number of the last batch that was acknowledged in any namespace
            before this process took the stream over; 0 if there is none.
    """

    def __init__(self, stream: StreamIdentity, sleep: Callable[[float], None]) -> None:
        self.last_acknowledged = 0
        self._stream = stream
        self._sleep = sleep  # or is interrupted by an exception
        self._acquired_queues: set[SparkQueue] = set()
        self._missing_queues: set[SparkQueue] = set()  # deleted since they were acquired
        self._tried_queues: set[SparkQueue] = set()  # as an interrupted call may have succeeded
        self._is_taken_over = False
        self._renewed_at = time.monotonic()

    def take_over(self) -> None:
        """Refuse the receives of every other process from now on."""
        for server in self._stream.servers:
            operation = take_over_ownership(
                server.namespace, self._stream.query, self._stream.holder
            )
            self.last_acknowledged = max(self.last_acknowledged, server.rsmq.run(operation))

    def acquire(self, queues: Iterable[SparkQueue]) -> None:
        """
        Acquire the name on queues, as soon as the time of a previous holder is over.

        Queues on which it is acquired already are left out.

        Raises:
            InvalidOption: another query has renewed it meanwhile, so it lives.
        """
        acquired = self._acquired_queues - self._missing_queues
        new = [queue for queue in queues if queue not in acquired]
        if not new or not self._stream.is_named:
            return
        self._tried_queues.update(new)
        asked_at = time.monotonic()
        end_at: float | None = None  # of the time of the holder, if it does not renew it
        while seconds := self._try_acquire(new):
            # The server has answered between ``asked_at`` and now.
            if end_at is None:
                end_at = time.monotonic() + seconds
            elif asked_at + seconds > end_at + HOLDER_TIMEOUT_SECONDS / 15:
                name = self._stream.name
                raise InvalidOption(
                    "consumerGroup",
                    f"another query that is running has the stream {name}. Give this query "
                    "another name or none, or stop the other.",
                    value=name,
                )
            self._sleep(min(seconds, HOLDER_TIMEOUT_SECONDS / 15))
            asked_at = time.monotonic()
        self.take_over()
        self._acquired_queues.update(new)

    def _try_acquire(self, queues: Iterable[SparkQueue]) -> float:
        """
        Acquire or renew the name on each of the queues that has no other holder.

        Returns:
            For how many seconds another holder has one of them; 0 if this one has all.
        """
        longest = 0.0
        for queue in queues:
            operation = acquire_ownership(
                queue.keys,
                self._stream.name,
                self._stream.holder,
                seconds=HOLDER_TIMEOUT_SECONDS,
                lifetime=self._stream.options.lease_retention,
            )
            try:
                longest = max(longest, queue.server.rsmq.run(operation))
                self._missing_queues.discard(queue)
            except QueueNotFound:
                self._missing_queues.add(queue)  # reading the queue raises the error
        return longest

    def renew(self) -> None:
        """Renew the name on its queues; ``check`` raises an error if another process has it."""
        self._renewed_at = time.monotonic()
        if self._try_acquire(list(self._acquired_queues)):
            self._is_taken_over = True

    def check(self) -> None:
        """
        Check that the name belongs to this process, if it is a consumer group.

        Raises:
            LeaseTakenOver: another process has it.
        """
        age = time.monotonic() - self._renewed_at
        if self._stream.is_named and age > HOLDER_TIMEOUT_SECONDS / 2:
            self.renew()  # the process may have been suspended for some time
        if self._is_taken_over:
            raise LeaseTakenOver(self._stream.name)

    def release(self) -> None:
        """Release the name, so that a successor need not wait for the end of its time."""
        name, holder = self._stream.name, self._stream.holder
        failed: set[SparkServer] = set()
        for queue in self._tried_queues:
            if queue.server in failed:
                continue
            try:
                queue.server.rsmq.run(release_ownership(queue.keys, name, holder))
            except (RedisError, RSMQError) as error:  # the successor waits
                failed.add(queue.server)
                log.warning("The stream %s was not released: %s", name, error)
