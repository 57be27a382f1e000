"""
The watcher of the synchronous client: one thread and one connection for all waiting receives.

The connection tracks the sorted sets that are read on it, so the server reports the next change of
each, whoever makes it. It carries nothing else. ``schedule.py`` decides who is woken;
``aio.py`` is the asyncio twin.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry as RedisRetry

from rsmq.errors import ClientClosed
from rsmq.transport.signals import Flag, Held
from rsmq.transport.socket import OwnConnection
from rsmq.transport.sync import Caller
from rsmq.waiting.schedule import Board, Waiter
from rsmq.waiting.tracking import RECONNECT, SILENCE, Tracking, retry_tracking, tracking_options
from rsmq.wire.keys import Namespace

T = TypeVar("T")

#: Seconds without anybody waiting after which the thread ends and the connection closes.
IDLE = 10.0
#: Replies that are taken in together at most.
REPLIES = 1000


# A function that is an object of its own: freezegun, which stops the time of memory://, would
# else stop the time of those who wait, too.
now = partial(time.monotonic)


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
        self._board = Board(opening=pool is not None)
        self._tracking = Tracking(self._board, namespace)
        self._connection: Any = None
        self._connect_at = now() if pool is not None else math.inf
        self._wakes_at = -math.inf
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
            seconds: the longest wait; None is forever.

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
            self._wake_thread()
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
            self._wake_thread()

    def leave(self, waiter: Waiter) -> None:
        """Wait no more; another is woken in the place of one who was and did not look."""
        with Held(), self._lock:
            self._board.leave(waiter)
            if waiter.awake:  # it was sent, and did not look to the end
                self._board.failed(waiter, now())
                self._wake_thread()

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
        moment = now()
        if self._connection is not None and self._tracking.next_request_at(moment) <= moment:
            self._send(self._tracking.next_request(moment))
            self._wakes_at = -math.inf  # the reply wakes the thread

    def _wake_thread(self) -> None:
        """Wake the thread if it sleeps for longer than it should by now; the lock is held."""
        if self._connection is not None and self._board.next_look() < self._wakes_at:
            self._send(self._tracking.ping(now()))
            self._wakes_at = -math.inf

    def _send(self, commands: bytes) -> None:
        try:
            self._connection.send_packed_command((commands,))
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
                next_look = min(next_look, idle_since + IDLE)
                pause = max(0.0, next_look - moment)
                connection = self._connection
                if connection is None:
                    self._connect_if_due(moment)
                    self._lock.wait(min(pause, max(0.001, self._connect_at - moment)))
                    continue
                pause = max(0.0, min(pause, self._tracking.next_request_at(moment) - moment))
                silent = self._tracking.seconds_until_overdue(moment) <= 0
                # Never for long: a question that is asked meanwhile may stay without an answer.
                pause = min(pause, SILENCE / 2)
                self._wakes_at = moment + pause
                if silent:
                    self._lose()
            if silent:
                connection.disconnect()
            else:
                self._hear(connection, pause)
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
            self._board.opening = False
            if connection is not None and self._thread is not None:
                self._connection, connection = connection, None
                self._connect_at = now() + RECONNECT  # should it be lost
                self._tracking = Tracking(self._board, self._namespace)
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
                self._heard(connection, _replies(connection))
        except Exception:  # noqa: BLE001 - also what redis-py raises when another thread closed it
            with self._lock:
                if self._connection is connection:
                    self._lose()
        if self._connection is not connection:
            connection.disconnect()

    def _heard(self, connection: Any, replies: list[Any]) -> None:
        with self._lock:
            if self._connection is connection and not self._closed:
                for said in replies:
                    self._tracking.handle(said, now())
                self._ask()


def _replies(connection: OwnConnection) -> list[Any]:
    """What the server has said, errors as they are, as far as it has come."""
    replies: list[Any] = []
    while len(replies) < REPLIES and (not replies or connection.can_read()):
        try:
            replies.append(connection.read_response(push_request=True))
        except ResponseError as error:
            replies.append(error)
    return replies


class Watchers:
    """The watcher of each process that uses a client: a thread does not live on in a child."""

    def __init__(self, caller: Caller, namespace: Namespace) -> None:
        """
        Make them; nothing is opened.

        Args:
            caller: the client's.
            namespace: the namespace of the queues.
        """
        self._caller = caller
        self._namespace = namespace
        self._watchers: dict[int, Watcher] = {}
        self._closed = False

    def current(self) -> Watcher:
        """
        Return the watcher of this process.

        Raises:
            ClientClosed: close() was called.
        """
        process = os.getpid()
        watcher = self._watchers.get(process)
        if watcher is None:
            made = Watcher(self._caller.watched_pool(), self._namespace, self._caller.rest)
            watcher = self._watchers.setdefault(process, made)  # one step, for other threads
        if self._closed:  # perhaps since it was made
            watcher.close()
            raise ClientClosed
        return watcher

    def close(self) -> None:
        """End all waits with ClientClosed, and the threads."""
        self._closed = True
        for watcher in list(self._watchers.values()):
            watcher.close()
