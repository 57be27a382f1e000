"""
Connections of the synchronous client: from a pool of redis-py, or one for each thread.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from redis.exceptions import RedisError

from rsmq.transport.redis_py import set_timeout, timeout_of_connections
from rsmq.transport.retry import shorter_timeout
from rsmq.transport.socket import SocketConnection
from rsmq.wire.limits import ACCEPTED_BODY_BYTES

#: The largest number of idle connections that are kept for any thread.
_MAX_SPARE_CONNECTIONS = 8


def ignore_failure(error: BaseException) -> None:
    """Do nothing: there is only one server to connect to."""


class ConnectionProvider(Protocol):
    """
    A provider of connections, one for each call.

    Attributes:
        pool: the connection pool of redis-py, with the class and the options of connections.
        note_failure: called with the error of each call that failed, and of each connection that
            could not be opened.
        has_disk_checked: whether the server is able to say what is on disk.
        timeout: seconds without progress after which a connection is closed; None is forever.
        body_limit: the bytes of the largest body that the server accepts, as far as it is known.
    """

    pool: Any
    note_failure: Callable[[BaseException], None]
    has_disk_checked: bool
    timeout: float | None
    body_limit: int

    def acquire(self, *, check: bool, until: float) -> Any:
        """
        Return an open connection for one call.

        Args:
            check: whether it must not be broken.
            until: monotonic seconds at which a connection of our own must be open.
        """

    def release(self, connection: Any, *, is_usable: bool) -> None:
        """Return a connection after its call; it is closed if it is not usable."""

    def release_idle_connection(self) -> None:
        """Make the idle connection of this thread available to other threads."""

    def close(self) -> None:
        """Close the connections that this object opened."""


class PooledConnections:
    """Connections of a redis-py pool, acquired and released for each call."""

    def __init__(
        self,
        pool: Any,
        *,
        is_owned: bool,
        note_failure: Callable[[BaseException], None] = ignore_failure,
    ) -> None:
        self.pool = pool
        self.note_failure = note_failure
        self.has_disk_checked = False
        self.timeout = timeout_of_connections(pool.connection_class, pool.connection_kwargs)
        self.body_limit = ACCEPTED_BODY_BYTES
        self._is_owned = is_owned
        self._closed = False

    def acquire(self, *, check: bool, until: float) -> Any:  # noqa: ARG002 - a pool decides both
        try:
            return self.pool.get_connection()
        except RedisError as error:
            self.note_failure(error)
            raise

    def release(self, connection: Any, *, is_usable: bool) -> None:
        if not is_usable or self._closed:
            connection.disconnect()
        self.pool.release(connection)

    def release_idle_connection(self) -> None:
        """Do nothing: no connection belongs to a thread."""

    def close(self) -> None:
        """Close idle connections now and others when released, if this object owns the pool."""
        if self._is_owned:
            self._closed = True
            self.pool.disconnect(inuse_connections=False)


class ThreadConnections:
    """
    Connections with one idle connection for each thread, which avoids the cost of a pool.

    The connection of a thread is closed when the thread ends. While a call uses a connection, it
    is not stored as the idle one, so that a signal handler or a nested call gets another one. A
    child process does not use the connections of its parent. Before a thread sleeps, it makes its
    connection available to other threads; at most _MAX_SPARE_CONNECTIONS of these are kept.
    """

    def __init__(
        self, pool: Any, note_failure: Callable[[BaseException], None] = ignore_failure
    ) -> None:
        self.pool = pool
        self.note_failure = note_failure
        self.has_disk_checked = False
        self.timeout = timeout_of_connections(pool.connection_class, pool.connection_kwargs)
        self.body_limit = ACCEPTED_BODY_BYTES
        self._local = threading.local()
        self._states: weakref.WeakSet[_ThreadState] = weakref.WeakSet()
        self._spare: list[Any] = []
        self._closed = False

    def acquire(self, *, check: bool, until: float) -> Any:
        state = getattr(self._local, "state", None) or self._current_state()
        connection = state.take() or self._take_spare()
        if connection is not None:
            if not connection.is_inherited() and (not check or connection.is_idle()):
                return connection
            connection.disconnect()  # if the parent opened it, the parent can still use it
        opened = self.pool.connection_class(**self.pool.connection_kwargs)
        _shorten_timeouts(opened, until)
        try:
            opened.connect()
        except RedisError as error:
            self.note_failure(error)
            raise
        set_timeout(opened, self.timeout)
        return SocketConnection(opened)

    def release(self, connection: Any, *, is_usable: bool) -> None:
        state = getattr(self._local, "state", None) or self._current_state()
        if is_usable and state.connection is None and not self._closed:
            state.connection = connection
        else:
            connection.disconnect()

    def release_idle_connection(self) -> None:
        connection = self._current_state().take()
        if connection is None:
            return
        if len(self._spare) < _MAX_SPARE_CONNECTIONS:
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
