"""
Waits for messages, for the synchronous client: one thread and one connection for all who wait.

The connection tracks the sorted sets that ``due_in.lua`` reads on it, so the server tells of the
next change of each, whoever makes it. It carries nothing else. ``waiting.py`` says who is woken;
``aio_watcher.py`` is the asyncio twin.
"""

from __future__ import annotations

import functools
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry as RedisRetry

from rsmq.errors import ClientClosed
from rsmq.failures import code_of
from rsmq.interrupts import Flag, Held
from rsmq.operations import due_in
from rsmq.own_connection import OwnConnection
from rsmq.protocol import Namespace
from rsmq.waiting import Board, Waiter

T = TypeVar("T")

#: Seconds without anybody waiting after which the thread ends and the connection closes.
IDLE = 10.0
#: Seconds until the next attempt to connect, where the server could not be reached, and where it
#: answered with an error that may pass.
RECONNECT = 0.5
RECONSIDER = 60.0
#: Seconds after which a connection that does not answer is given up.
SILENCE = 5.0

# A function that is an object of its own: freezegun, which stops the time of memory://, would
# else stop the time of those who wait, too.
now = functools.partial(time.monotonic)


class News:
    """What the tracking connection has been asked, and what it says."""

    def __init__(self, board: Board, namespace: Namespace) -> None:
        self._board = board
        self._namespace = namespace
        self._names = True  # until this user turns out not to be allowed to ask for them
        self._asked: deque[tuple[float, list[bytes]]] = deque()

    def question(self, now: float) -> tuple[bytes, ...]:
        """The command that reads what is to be read."""
        queues = sorted(self._board.unread)
        self._board.unread.clear()
        self._asked.append((now, queues))
        operation = due_in(self._namespace, queues, names=self._names)
        count = b"%d" % len(operation.keys)
        return (b"EVAL", operation.script.source, count, *operation.keys, *operation.args)

    def overdue(self, now: float) -> float:
        """Seconds until the connection must have answered; infinite if it has."""
        return self._asked[0][0] + SILENCE - now if self._asked else math.inf

    def heard(self, said: Any, now: float) -> None:
        """Take in a reply or a message of the server."""
        changes = changes_of(said)
        if changes is None:
            self._answered(said, now)
        elif not changes or self._namespace.queues in changes:  # none: all keys were flushed
            self._board.everything_changed(now)
        for queue in changes or ():
            self._board.changed(queue, now)

    def _answered(self, answer: Any, now: float) -> None:
        _, queues = self._asked.popleft()
        if not isinstance(answer, ResponseError):
            for queue, ms in zip(queues, answer, strict=True):
                self._board.was_read(queue, int(ms), now)
        elif code_of(answer) == "NOPERM" and self._names:
            self._names = False
            self._board.unread.update(queues)
        else:
            for queue in queues:
                self._board.not_read(queue, now)


def changes_of(said: Any) -> list[bytes] | None:
    """The keys that the server says have changed, none for all of them; None for anything else."""
    if isinstance(said, list) and said and said[0] == b"invalidate":
        return said[1] or []
    return None


def retry_tracking(error: BaseException) -> float:
    """Seconds until tracking is tried again after this error; infinite if it will never work."""
    if isinstance(error, ResponseError):
        refused = code_of(error) in ("NOPERM", "NOPROTO") or "unknown" in str(error).lower()
        return math.inf if refused else RECONSIDER
    return RECONNECT if isinstance(error, RedisError | OSError) else RECONSIDER


def tracking_options(pool: Any) -> dict[str, Any]:
    """Options for one more connection like those of a pool, which speaks RESP3."""
    options = {
        name: value
        for name, value in pool.connection_kwargs.items()
        if not name.startswith(("maint_notifications", "orig_", "oss_cluster_maint"))
    }
    return {**options, "protocol": 3, "decode_responses": False, "health_check_interval": 0}


class Watcher:
    """Lets threads wait until there may be something to receive."""

    def __init__(self, pool: Any, namespace: Namespace, rest: Callable[[], object]) -> None:
        """
        Make a watcher; nothing is opened before somebody waits.

        Args:
            pool: where connections are made; None where the server can't tell of changes.
            namespace: the queues'.
            rest: called by a thread before it sleeps.
        """
        self._pool = pool
        self._rest = rest
        self._namespace = namespace
        self._pid = os.getpid()
        self._lock = threading.Condition()
        self._board = Board()
        self._news = News(self._board, namespace)
        self._connection: Any = None
        self._connect_at = now() if pool is not None else math.inf
        self._thread: threading.Thread | None = None
        self._closed = False

    def wait(
        self,
        look: Callable[[], T],
        give_back: Callable[[T], object],
        nothing: T,
        queues: Iterable[bytes],
        seconds: float | None,
    ) -> T:
        """
        What a look finds, once there is something to find.

        Args:
            look: a receive, whose result is falsy when there is nothing.
            give_back: undoes a look that found something.
            nothing: what an earlier look found, to be returned at the deadline.
            queues: the sorted sets to wait for.
            seconds: the longest wait; None is for ever.

        Raises:
            ClientClosed: close() was called meanwhile.
        """
        until = None if seconds is None else now() + seconds
        flag = Flag()
        waiter = Waiter(tuple(queues), flag.set)
        found = nothing
        try:
            while True:
                with Held():
                    flag.clear()
                    self.enter(waiter)
                self._rest()
                flag.wait(None if until is None else until - now())
                with Held(), self._lock:
                    self._board.leave(waiter)
                if not waiter.awake and not self._closed:
                    return nothing
                found = look()  # which a closed client refuses
                if found:
                    self.found(waiter)
                    return found
                waiter.looks += 1
        except BaseException:
            self.leave(waiter)
            if found:
                give_back(found)
            raise

    def enter(self, waiter: Waiter) -> None:
        """
        Begin to wait, or come back after a look that found nothing; it is woken once.

        Raises:
            ClientClosed: close() was called.
        """
        with self._lock:
            if self._closed:
                raise ClientClosed
            self._board.enter(waiter, now())
            self._ask()
            if self._thread is None or not self._thread.is_alive():
                thread = threading.Thread(target=self._work, name="rsmq-watcher", daemon=True)
                thread.start()
                self._thread = thread
            elif self._connection is None:
                self._lock.notify()

    def found(self, waiter: Waiter) -> None:
        """One who was woken has looked, and found something."""
        with Held(), self._lock:
            waiter.awake = False
            self._board.found(waiter, now())
            self._ask()

    def leave(self, waiter: Waiter) -> None:
        """Wait no more; another is woken in the place of one who was and did not look."""
        with Held(), self._lock:
            self._board.leave(waiter)
            if waiter.awake:  # it was sent, and did not look to the end
                self._board.failed(waiter, now())

    def close(self) -> None:
        """End all waits with an error, and the thread."""
        if self._pid != os.getpid():
            return
        with Held(), self._lock:
            self._closed = True
            self._board.send_all()
            thread, self._thread = self._thread, None
            if self._connection is not None:
                with suppress(RedisError, OSError):  # its reply wakes the thread
                    self._connection.send_command("PING")
            self._lock.notify()
        if thread is not None and thread is not threading.current_thread():
            thread.join(1)

    def _ask(self) -> None:
        """Read what is to be read; the lock is held."""
        if self._connection is not None and self._board.unread:
            try:
                self._connection.send_command(*self._news.question(now()))
            except (RedisError, OSError):
                self._lose()

    def _lose(self) -> None:
        self._connection = None
        self._board.end_telling(now())

    def _work(self) -> None:
        idle_since = now()
        while True:
            with self._lock:
                moment = now()
                if self._board:
                    idle_since = moment
                if self._closed or moment - idle_since >= IDLE:
                    connection, self._connection, self._thread = self._connection, None, None
                    self._board.end_telling(moment)
                    break
                next_look = self._board.send_who_must_look(moment)
                self._ask()
                pause = max(0.0, min(next_look, idle_since + IDLE) - moment)
                connection = self._connection
                if connection is None:
                    self._connect_if_due(moment)
                    self._lock.wait(min(pause, max(0.001, self._connect_at - moment)))
                    continue
                silent = self._news.overdue(moment) <= 0
                if silent:
                    self._lose()
            if silent:
                connection.disconnect()
            else:
                # Never for long: a question that is asked meanwhile may stay without an answer.
                self._hear(connection, min(pause, SILENCE / 2))
        if connection is not None:
            connection.disconnect()

    def _connect_if_due(self, moment: float) -> None:
        """Connect in a thread of its own, for it may take long; the lock is held."""
        if moment >= self._connect_at:
            self._connect_at = math.inf  # until this attempt has ended
            threading.Thread(target=self._connect, name="rsmq-connect", daemon=True).start()

    def _connect(self) -> None:
        connection, again = None, math.inf
        try:
            connection = self._tracking_connection()
        except Exception as error:  # noqa: BLE001 - those who look will learn why
            again = retry_tracking(error)
        with self._lock:
            self._connect_at = now() + again
            if connection is not None and self._thread is not None:
                self._connection, connection = connection, None
                self._connect_at = now() + RECONNECT  # should it be lost
                self._news = News(self._board, self._namespace)
                self._board.begin_telling(now())
                self._ask()
            elif connection is not None:  # nobody waits any more
                self._connect_at = now()
            self._lock.notify()
        if connection is not None:
            connection.disconnect()

    def _tracking_connection(self) -> Any:
        options = tracking_options(self._pool)
        options["retry"] = RedisRetry(NoBackoff(), 0)
        connection = self._pool.connection_class(**options)
        try:
            connection.connect()
            connection.send_command("CLIENT", "TRACKING", "ON", "NOLOOP")
            connection.read_response()
        except BaseException:
            connection.disconnect()
            raise
        return OwnConnection(connection)

    def _hear(self, connection: Any, pause: float) -> None:
        try:
            if connection.can_read(timeout=pause):
                said = connection.read_response(
                    disable_decoding=True, disconnect_on_error=False, push_request=True
                )
                self._heard(connection, said)
        except ResponseError as error:
            self._heard(connection, error)
        except Exception:  # noqa: BLE001 - also what redis-py raises when another thread closed it
            with self._lock:
                if self._connection is connection:
                    self._lose()
        if self._connection is not connection:
            connection.disconnect()

    def _heard(self, connection: Any, said: Any) -> None:
        with self._lock:
            if self._connection is connection and not self._closed:
                self._news.heard(said, now())
                self._ask()
