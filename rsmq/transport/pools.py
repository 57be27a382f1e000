"""
Connections of the synchronous client: from a pool of redis-py, or one for each thread.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from rsmq.errors import InvalidFormat
from rsmq.transport.socket import OwnConnection
from rsmq.transport.url import ENCODED_RULE, bad_url

#: How many connections are kept that threads have left.
_SPARE = 8


class Connections(Protocol):
    """Lends out connections, one for each call."""

    pool: Any

    def take(self, *, check: bool) -> Any:
        """Lend out a connection that is ready; checked for being alive if asked."""

    def put(self, connection: Any, *, usable: bool) -> None:
        """Take a lent connection back."""

    def rest(self) -> None:
        """Leave what is kept for this thread to others."""

    def close(self) -> None:
        """Close what was opened here."""


class Pooled:
    """Connections of a redis-py pool, taken and given back for each call."""

    def __init__(self, pool: Any, *, owned: bool) -> None:
        self.pool = pool
        self._owned = owned
        self._closed = False

    def take(self, *, check: bool) -> Any:  # noqa: ARG002 - a pool always checks
        return self.pool.get_connection()

    def put(self, connection: Any, *, usable: bool) -> None:
        if not usable or self._closed:
            connection.disconnect()
        self.pool.release(connection)

    def rest(self) -> None:
        """Nothing is kept for a thread."""

    def close(self) -> None:
        """Close the idle connections, if the pool is ours; those that are lent out follow."""
        if self._owned:
            self._closed = True
            self.pool.disconnect(inuse_connections=False)


class PerThread:
    """
    One idle connection a thread, of a pool that is ours: it saves a pool's cost for each call.

    A thread's connection closes when the thread ends. A connection is never in its slot while it
    is lent out, so that a signal handler or a nested call gets another one. A child process
    leaves its parent's connections alone. Threads that sleep leave theirs to others, who keep a
    few.
    """

    def __init__(self, pool: Any) -> None:
        self.pool = pool
        self._thread = threading.local()
        self._slots: weakref.WeakSet[_Slot] = weakref.WeakSet()
        self._spare: list[Any] = []
        self._closed = False

    def take(self, *, check: bool) -> Any:
        slot = getattr(self._thread, "slot", None) or self._slot()
        connection = slot.take() or self._take_spare()
        if connection is not None:
            if not connection.is_inherited() and (not check or connection.is_idle()):
                return connection
            connection.disconnect()  # a parent's is closed on this side only
        opened = self.pool.connection_class(**self.pool.connection_kwargs)
        opened.connect()
        return OwnConnection(opened)

    def put(self, connection: Any, *, usable: bool) -> None:
        slot = getattr(self._thread, "slot", None) or self._slot()
        if usable and slot.connection is None and not self._closed:
            slot.connection = connection
        else:
            connection.disconnect()

    def rest(self) -> None:
        connection = self._slot().take()
        if connection is None:
            return
        if len(self._spare) < _SPARE:
            self._spare.append(connection)
        else:
            connection.disconnect()
        if self._closed:
            self._close_spare()

    def close(self) -> None:
        self._closed = True
        self._close_spare()
        for slot in self._all_slots():
            connection = slot.take()
            if connection is not None:
                connection.disconnect()

    def _take_spare(self) -> Any:
        try:
            return self._spare.pop()  # one step, for other threads
        except IndexError:
            return None

    def _close_spare(self) -> None:
        while connection := self._take_spare():
            connection.disconnect()

    def _slot(self) -> _Slot:
        slot: _Slot | None = getattr(self._thread, "slot", None)
        if slot is None:
            slot = self._thread.slot = _Slot()
            self._slots.add(slot)
        return slot

    def _all_slots(self) -> list[_Slot]:
        # Without a lock, which a fork could leave locked forever in the child.
        while True:
            try:
                return list(self._slots)
            except RuntimeError:  # a thread began meanwhile
                continue


class _Slot:
    """The place of one thread's idle connection."""

    connection: Any = None

    def take(self) -> Any:
        # One step, so that close() in another thread can't take the same connection.
        return self.__dict__.pop("connection", None)

    def __del__(self) -> None:
        # The thread has ended. The connection itself is in reference cycles, and would wait.
        connection = self.take()
        if connection is not None:
            connection.disconnect()


def checked_pool(url: str, make: Callable[[], Any]) -> Any:
    """
    The pool that ``make`` makes, if it can make connections; none is opened yet.

    Raises:
        InvalidFormat: redis-py refuses the URL, or an option of it or beside it.
    """
    wrong: InvalidFormat
    try:
        pool = make()
        pool.connection_class(**pool.connection_kwargs)
    except ValueError:
        rule = f"The port, the database or an option is not what it must be; {ENCODED_RULE}"
        wrong = bad_url(url, rule)
    except TypeError as error:
        refused = str(error).partition(" got ")[2]
        wrong = InvalidFormat("options", hint=f"redis-py does not take these options: {refused}.")
    else:
        return pool
    raise wrong  # as above


def without_retries(options: dict[str, Any], retry: object) -> dict[str, Any]:
    """Options of redis-py for connections of our own; what the caller gives goes first."""
    return {"retry": retry, "socket_timeout": 5.0, "socket_connect_timeout": 5.0, **options}
