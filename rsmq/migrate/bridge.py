"""
Bridges: forward new messages from or to another system until they are stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from redis.exceptions import AuthenticationError, AuthorizationError, RedisError
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import TimeoutError as TimedOut

from rsmq.errors import InvalidValue, RSMQError, SourceNotFound
from rsmq.errors.guarded_log import get_logger
from rsmq.errors.printable import format_count
from rsmq.migrate.mover import Mover, refuse_open_copy
from rsmq.migrate.report import MigrationReport, add_progress
from rsmq.migrate.server import Server
from rsmq.migrate.sources.base import Source
from rsmq.migrate.sources.item import Found
from rsmq.migrate.target import prepare, refuse_same_queue
from rsmq.transport.signals import Flag
from rsmq.wire.limits import check_whole_number

_log = get_logger("rsmq.migrate")

#: The longest wait for messages, in seconds. After it the bridge checks whether it is stopped.
_WAIT_SECONDS = 1.0

#: Seconds between two moves of the delayed messages of an RSMQ queue. Messages that become due are
#: moved at once.
_DELAYED_SECONDS = 30.0

#: Seconds between two attempts to connect to a server.
_RECONNECT_SECONDS = 1.0

#: The largest rate and limit.
_MAX_MESSAGES = 10**15

#: The number of messages that a step moves at most. With a rate it is less: those of a second.
_STEP_SIZE = 1000


class _Side(Protocol):
    """A direction of a bridge: ``Inward`` or ``Outward``."""

    def begin(self) -> None: ...

    def step(self, number: int) -> int: ...

    def wait(self, seconds: float, number: int) -> int: ...

    def count_waiting(self) -> int: ...

    def end(self) -> None: ...


class Bridge:
    """
    A bridge that moves messages from one system to the other until it is stopped.

    If the connection to a server breaks, it connects again. If it is stopped or killed at any
    moment, no message is lost: the next bridge or move continues.

    Attributes:
        moved: the number of messages that it has moved.
        reconnects: how often a connection broke.
        moved_at: when it last moved a message, Unix seconds; 0 if it has moved none.
    """

    def __init__(
        self,
        side: _Side,
        tell: Callable[[int], None] | None = None,
        *,
        rate: float | None = None,
        limit: int | None = None,
    ) -> None:
        """
        Prepare the bridge; ``run`` starts it.

        Args:
            side: an ``Inward`` or an ``Outward``.
            tell: is called with the number of messages moved so far.
            rate: the number of messages that it moves in a second at most, above 0; None is
                unlimited.
            limit: the number of messages after which it ends, from 1; None never ends.

        Raises:
            InvalidValue: rate or limit is out of range.
        """
        if limit is not None:
            check_whole_number("limit", limit, 1, _MAX_MESSAGES)
        if rate is not None and not 0 < rate <= _MAX_MESSAGES:
            raise InvalidValue("rate", 0, _MAX_MESSAGES, value=rate, hint="It is a number above 0.")
        self._side = side
        self._report_progress = tell
        self._rate = rate
        self._limit = limit
        self._stopped = Flag()
        self.moved = 0
        self.reconnects = 0
        self.moved_at = 0.0

    def stop(self) -> None:
        """
        Stop the bridge after its current step.

        May be called by another thread or a signal handler.
        """
        self._stopped.set()

    def count_waiting(self) -> int:
        """
        Return the number of messages that can be moved now.

        May be called by another thread.

        Raises:
            redis.exceptions.RedisError: the server is away.
            RSMQError: there is no such queue.
        """
        return self._side.count_waiting()

    def run(self) -> int:
        """
        Move messages until the bridge is stopped, or has moved as many as its limit.

        Returns:
            The number of messages that it has moved.

        Raises:
            redis.exceptions.RedisError: a user has no right, a key is of another type, or memory is
                full. After a ConnectionError or TimeoutError it connects again instead.
            RSMQError: as of ``begin`` and ``step``.
        """
        try:
            self._run_until_stopped()
        except (RedisError, RSMQError) as error:
            add_progress(error, self.moved, f"{format_count(self.moved)} moved before.")
            raise
        finally:
            self._side.end()
        return self.moved

    def _run_until_stopped(self) -> None:
        begun = False
        while not self._stopped.is_set() and self.moved != self._limit:
            number = self._step_size()
            try:
                if not begun:
                    self._side.begin()
                    begun = True
                moved = self._side.step(number) or self._side.wait(_WAIT_SECONDS, number)
            except (NotConnected, TimedOut) as error:
                if isinstance(error, AuthenticationError | AuthorizationError):
                    raise
                _log.warning("bridge: the server is away, trying again: %s", error)
                begun = False
                self.reconnects += 1
                self._stopped.wait(_RECONNECT_SECONDS)
                continue
            if moved:
                self._count(moved)

    def _step_size(self) -> int:
        sizes = [_STEP_SIZE]
        if self._rate is not None:
            sizes.append(max(1, int(self._rate)))
        if self._limit is not None:
            sizes.append(self._limit - self.moved)
        return min(sizes)

    def _count(self, moved: int) -> None:
        self.moved += moved
        self.moved_at = time.time()
        if self._report_progress is not None:
            self._report_progress(self.moved)
        if self._rate is not None and self.moved != self._limit:
            self._stopped.wait(moved / self._rate)


class Inward:
    """The direction from another system to a queue."""

    def __init__(self, source: Source, queue: str, target: Server, to: str) -> None:
        """
        Set the source and the target.

        Args:
            source: the source.
            queue: the name of the queue at the source, which need not exist yet.
            target: the target server.
            to: the name of the target queue; it is created if it is missing.
        """
        self._source = source
        self._queue = queue
        self._target = target
        self._to = to
        self.report = MigrationReport(f"{source.kind}:{queue}", to, "move")
        self._mover: Mover | None = None
        self._delayed_at = 0.0

    def begin(self) -> None:
        """
        Prepare the target queue, and finish what an earlier bridge or move began.

        Raises:
            NotPossible: the target queue is the source; a copy of a list without ids to it is open;
                or another run moves the same queue between two servers.
        """
        refuse_same_queue(self._source, self._queue, self._target, self._to)
        refuse_open_copy(self._source, self._queue, self._target, self._to)
        try:
            found = self._source.look(self._queue)
        except SourceNotFound:  # it may be created later
            found = Found(self._queue, {})
        for note in found.notes:
            self.report.note(note)
        prepare(self._source, self._target, self._to, found, self.report)
        if self._mover is None:
            self._mover = Mover(
                self._source, self._queue, self._target, self._to, self.report, in_flight=False
            )
        self._mover.maxsize = self._target.rsmq.get_queue_attributes(self._to).maxsize
        self._mover.resume()

    def end(self) -> None:
        """Release the lock, so that another bridge or move can run."""
        if self._mover is not None:
            if self._mover.is_at_end:
                with suppress(RedisError, RSMQError):
                    self._mover.complete()
            self._mover.release()

    def step(self, number: int) -> int:
        """
        Move messages.

        Args:
            number: the number of messages at most.

        Returns:
            The number of messages removed from the source; 0 if none wait.
        """
        mover = self._mover
        assert mover is not None  # noqa: S101 - begin() has set it
        removed = mover.removed
        # An RSMQ queue keeps delayed messages among those in flight, so all of these are read.
        with_delayed = self._source.kind != "rsmq" or time.monotonic() >= self._delayed_at
        while mover.removed == removed and mover.step(number, with_delayed=with_delayed):
            pass
        if with_delayed:
            self._delayed_at = time.monotonic() + _DELAYED_SECONDS
        return mover.removed - removed

    def wait(self, seconds: float, number: int) -> int:
        """Wait until there may be messages, at most so many seconds. Return 0."""
        del number  # a step moves them
        self._source.wait(self._queue, seconds)
        return 0

    def count_waiting(self) -> int:
        """Return the number of ready messages at the source; 0 if the queue does not exist."""
        try:
            return self._source.look(self._queue).counts.get("ready", 0)
        except SourceNotFound:
            return 0
