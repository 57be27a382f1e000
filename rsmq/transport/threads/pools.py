"""
Connections of the synchronous client: one for each thread, or a limited number for all.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

from redis.exceptions import MaxConnectionsError, RedisError

from rsmq.transport.redis_py import set_timeout, timeout_of_connections
from rsmq.transport.retry import shorter_timeout
from rsmq.transport.socket import SocketConnection
from rsmq.transport.topology.group import ConnectionLimit, ServerPool
from rsmq.wire.limits import ACCEPTED_BODY_BYTES

#: The largest number of idle connections that are kept for any thread.
_MAX_SPARE_CONNECTIONS = 8


def ignore_failure(error: BaseException) -> None:
    """Do nothing: there is only one server to connect to."""


class ConnectionProvider(ABC):
    """
    A provider of connections, one for each call.

    Attributes:
        pool: the class and the options of connections.
        note_failure: called with the error of each call that failed, and of each connection that
            could not be opened.
        has_disk_checked: whether the server is able to say what is on disk.
        timeout: seconds without progress after which a connection is closed; None is forever.
        body_limit: the bytes of the largest body that the server accepts, as far as it is known.
    """

    def __init__(
        self, pool: ServerPool, note_failure: Callable[[BaseException], None] = ignore_failure
    ) -> None:
        self.pool = pool
        self.note_failure = note_failure
        self.has_disk_checked = False
        self.timeout = timeout_of_connections(pool.connection_class, pool.connection_kwargs)
        self.body_limit = ACCEPTED_BODY_BYTES
        self._closed = False

    @abstractmethod
    def acquire(self, *, check: bool, until: float) -> Any:
        """
        Return an open connection for one call.

        Args:
            check: whether it must not be broken.
            until: monotonic seconds at which a connection of our own must be open.
        """

    @abstractmethod
    def release(self, connection: Any, *, is_usable: bool) -> None:
        """Return a connection after its call; it is closed if it is not usable."""

    def release_idle_connection(self) -> None:  # noqa: B027 - most have none
        """Make the idle connection of this thread available to other threads, if it has one."""

    def close(self) -> None:  # noqa: B027 - a lent one is its owner's
        """Close the connections that this object opened."""

    def _open(self, until: float) -> SocketConnection:
        opened = self.pool.connection_class(**self.pool.connection_kwargs)
        _shorten_timeouts(opened, until)
        try:
            opened.connect()
        except RedisError as error:
            self.note_failure(error)
            raise
        set_timeout(opened, self.timeout)
        return SocketConnection(opened)


def make_provider(
    pool: ServerPool, note_failure: Callable[[BaseException], None] = ignore_failure
) -> ConnectionProvider:
    """Return the connections to a server; none is opened yet."""
    if pool.lender is not None:
        return LentConnections(pool, note_failure)
    kind = ThreadConnections if pool.limit is None else SharedConnections
    return kind(pool, note_failure)


class LentConnections(ConnectionProvider):
    """
    Connections of a redis-py pool that must make them, taken and returned for each call.

    They are read and written by redis-py, because they may have no socket.
    """

    def acquire(self, *, check: bool, until: float) -> Any:  # noqa: ARG002 - the pool decides both
        try:
            return self.pool.lender.get_connection()
        except RedisError as error:
            self.note_failure(error)
            raise

    def release(self, connection: Any, *, is_usable: bool) -> None:
        if not is_usable:
            connection.disconnect()
        self.pool.lender.release(connection)


class SharedConnections(ConnectionProvider):
    """Connections of a limited number, which threads share. A child process has its own."""

    def __init__(
        self, pool: ServerPool, note_failure: Callable[[BaseException], None] = ignore_failure
    ) -> None:
        super().__init__(pool, note_failure)
        self._places: dict[int, _Places] = {}

    def acquire(self, *, check: bool, until: float) -> Any:
        places = self._places.get(os.getpid()) or self._current_places()
        try:
            connection = places.free.get_nowait()
        except Empty:
            connection = places.take(self.pool.limit, until)
        if connection is not None:
            if not check or connection.is_idle():
                return connection
            connection.disconnect()
        try:
            return self._open(until)
        except BaseException:
            places.free.put(None)
            raise

    def release(self, connection: Any, *, is_usable: bool) -> None:
        places = self._places.get(os.getpid()) or self._current_places()
        if is_usable:
            places.free.put(connection)
        else:
            connection.disconnect()
            places.free.put(None)
        if self._closed:
            self.close()

    def close(self) -> None:
        self._closed = True
        free = self._current_places().free
        with suppress(Empty):
            for _ in range(free.qsize()):
                connection = free.get_nowait()
                if connection is not None:
                    connection.disconnect()
                free.put(None)

    def _current_places(self) -> _Places:
        process = os.getpid()
        for other in set(self._places) - {process}:
            self._places.pop(other, None)  # those of the parent, which can still use them
        return self._places.setdefault(process, _Places())


class _Places:
    """
    The places for open connections of one process; they are made when they are needed.

    Attributes:
        free: the places that no call uses, each with its connection, None if that is closed.
    """

    def __init__(self) -> None:
        self.free: SimpleQueue[Any] = SimpleQueue()
        self._numbers = itertools.count()

    def take(self, limit: ConnectionLimit | None, until: float) -> Any:
        """Make or wait for a place, and return its connection; None if it has none."""
        if limit is None or next(self._numbers) < limit.number:
            return None
        left = until - time.monotonic()
        wait = left if limit.wait is None else min(limit.wait, left)
        try:
            # eventlet's queue refuses a timeout without blocking.
            return self.free.get(True, None if wait == math.inf else max(wait, 0.0))
        except Empty:
            raise MaxConnectionsError("Too many connections") from None


class ThreadConnections(ConnectionProvider):
    """
    Connections with one idle connection for each thread, which avoids the cost of a pool.

    The connection of a thread is closed when the thread ends. While a call uses a connection, it
    is not stored as the idle one, so that a signal handler or a nested call gets another one. A
    child process does not use the connections of its parent. Before a thread sleeps, it makes its
    connection available to other threads; at most _MAX_SPARE_CONNECTIONS of these are kept.
    """

    def __init__(
        self, pool: ServerPool, note_failure: Callable[[BaseException], None] = ignore_failure
    ) -> None:
        super().__init__(pool, note_failure)
        self._local = threading.local()
        self._states: weakref.WeakSet[_ThreadState] = weakref.WeakSet()
        self._spare: list[Any] = []

    def acquire(self, *, check: bool, until: float) -> Any:
        state = getattr(self._local, "state", None) or self._current_state()
        connection = state.take() or self._take_spare()
        if connection is not None:
            if not connection.is_inherited() and (not check or connection.is_idle()):
                return connection
            connection.disconnect()  # if the parent opened it, the parent can still use it
        return self._open(until)

    def release(self, connection: Any, *, is_usable: bool) -> None:
        state = getattr(self._local, "state", None) or self._current_state()
        if is_usable and state.connection is None and not self._closed:
            state.connection = connection
        else:
            self._spare_or_close(connection, is_usable=is_usable)

    def release_idle_connection(self) -> None:
        connection = self._current_state().take()
        if connection is None:
            return
        self._spare_or_close(connection, is_usable=True)

    def _spare_or_close(self, connection: Any, *, is_usable: bool) -> None:
        if is_usable and len(self._spare) < _MAX_SPARE_CONNECTIONS:
            self._spare.append(connection)
        else:
            connection.disconnect()
        if self._closed:
            self._close_spare()

    def close(self) -> None:
        self._closed = True
        self._close_spare()
        for state in self._all_states():
            connection = state.take()
            if connection is not None:
                connection.disconnect()

    def _take_spare(self) -> Any:
        try:
            return self._spare.pop()  # one atomic step, because other threads do the same
        except IndexError:
            return None

    def _close_spare(self) -> None:
        while connection := self._take_spare():
            connection.disconnect()

    def _current_state(self) -> _ThreadState:
        state: _ThreadState | None = getattr(self._local, "state", None)
        if state is None:
            state = self._local.state = _ThreadState()
            self._states.add(state)
        return state

    def _all_states(self) -> list[_ThreadState]:
        # Without a lock, which a fork could leave locked forever in the child.
        while True:
            try:
                return list(self._states)
            except RuntimeError:  # a thread has started meanwhile
                continue


def _shorten_timeouts(connection: Any, until: float) -> None:
    """Shorten the timeouts of a connection that is not open yet, and must be open at a time."""
    for name in ("socket_timeout", "socket_connect_timeout"):
        seconds = shorter_timeout(getattr(connection, name), until)
        if seconds is not None:
            setattr(connection, name, seconds)


class _ThreadState:
    """The idle connection of one thread; None while it has none."""

    connection: Any = None

    def take(self) -> Any:
        # One atomic step, so that close() in another thread can't get the same connection.
        return self.__dict__.pop("connection", None)

    def __del__(self) -> None:
        # The thread has ended. Without this, the connection would stay open until the garbage
        # collection, because it is part of reference cycles.
        connection = self.take()
        if connection is not None:
            connection.disconnect()
