"""
Waits for messages, for the synchronous client: one thread and one connection for all who wait.

The connection tracks the sorted sets that are read on it, so the server reports the next change of
each, whoever makes it. It carries nothing else. ``schedule.py`` decides who is woken;
``aio.py`` is the asyncio twin.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry as RedisRetry

from rsmq.errors import ClientClosed
from rsmq.transport.retry import code_of
from rsmq.transport.signals import Flag, Held
from rsmq.transport.socket import OwnConnection
from rsmq.waiting import schedule
from rsmq.waiting.schedule import Board, Waiter
from rsmq.wire.keys import Namespace
from rsmq.wire.names import encode_name

T = TypeVar("T")

#: Seconds without anybody waiting after which the thread ends and the connection closes.
IDLE = 10.0
#: Seconds until the next attempt to connect, where the server could not be reached, and where it
#: answered with an error that may pass.
RECONNECT = 0.5
RECONSIDER = 60.0
#: Seconds after which a connection that does not answer is given up.
SILENCE = 5.0
#: Replies that are taken in together at most.
REPLIES = 1000

#: How many names of queues are looked up in a second at most, after queues were made or deleted.
NAMES_A_SECOND = 10_000

# The commands as they go over the wire: they are made for thousands of queues at once.
_TIME = b"*1\r\n$4\r\nTIME\r\n"
_PING = b"*1\r\n$4\r\nPING\r\n"
_FIRST = (
    b"*8\r\n$13\r\nZRANGEBYSCORE\r\n$%d\r\n%b\r\n$4\r\n-inf\r\n$4\r\n+inf\r\n$10\r\nWITHSCORES\r\n"
    b"$5\r\nLIMIT\r\n$1\r\n0\r\n$1\r\n1\r\n"
)
_IS_LISTED = b"*3\r\n$9\r\nSISMEMBER\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n"

# A function that is an object of its own: freezegun, which stops the time of memory://, would
# else stop the time of those who wait, too.
now = partial(time.monotonic)


class _Question:
    """
    Commands that were sent together.

    Attributes:
        asked_at: when they were sent.
        expected: for each reply that is still to come, what takes it in.
        now_ms: the server's time, once it has come.
    """

    __slots__ = ("asked_at", "expected", "now_ms")

    def __init__(self, asked_at: float) -> None:
        self.asked_at = asked_at
        self.expected: deque[Callable[[Any, float], None]] = deque()
        self.now_ms: float | None = None


class News:
    """
    What the tracking connection is asked, and what it says.

    A queue is read by a plain command, which orders the news of its next change. In a script, each
    read would order it for all keys of the script again: the time would grow with their square.
    """

    def __init__(self, board: Board, namespace: Namespace) -> None:
        self._board = board
        self._namespace = namespace
        self._prefix = len(encode_name(namespace.name)) + 1
        self._asks_names = True  # until this user turns out not to be allowed to
        self._names_at = -math.inf
        self._silent_at = -math.inf  # the first question comes at once
        self._asked: deque[_Question] = deque()

    def ask_at(self, now: float) -> float:
        """When there is something to be asked; at the latest when nothing was heard for a time."""
        if self._board.unread:
            return now
        if self._asks_names and self._board.unnamed:
            return min(self._names_at, self._silent_at)
        return self._silent_at

    def question(self, now: float) -> bytes:
        """The commands that read what is to be read, as they go over the wire."""
        self._silent_at = now + schedule.SAFETY
        question = _Question(now)
        commands = [_TIME]
        question.expected.append(partial(self._time, question))
        for queue in self._board.unread:
            commands.append(_FIRST % (len(queue), queue))
            question.expected.append(partial(self._first, question, queue))
        self._board.unread.clear()
        if self._asks_names and now >= self._names_at:
            index = self._namespace.queues
            for queue in self._board.unnamed:
                name = queue[self._prefix :]
                commands.append(_IS_LISTED % (len(index), index, len(name), name))
                question.expected.append(partial(self._listed, queue))
            self._names_at = now + len(self._board.unnamed) / NAMES_A_SECOND
            self._board.unnamed.clear()
        self._asked.append(question)
        return b"".join(commands)

    def ping(self, now: float) -> bytes:
        """A command whose reply wakes whoever reads the connection."""
        question = _Question(now)
        question.expected.append(lambda _reply, _now: None)
        self._asked.append(question)
        return _PING

    def overdue(self, now: float) -> float:
        """Seconds until the connection must have answered; infinite if it has."""
        return self._asked[0].asked_at + SILENCE - now if self._asked else math.inf

    def heard(self, said: Any, now: float) -> None:
        """Take in a reply or a message of the server."""
        self._silent_at = now + schedule.SAFETY
        changes = changes_of(said)
        if changes is None:
            self._answered(said, now)
        elif not changes:  # all keys were flushed
            self._board.everything_changed(now)
        for key in changes or ():
            if key == self._namespace.queues:
                self._board.names_changed()
            else:
                self._board.changed(key, now)

    def _answered(self, reply: Any, now: float) -> None:
        if self._asked:
            question = self._asked[0]
            question.asked_at = now  # it answers: of many replies the last may come late
            question.expected.popleft()(reply, now)
            if not question.expected:
                self._asked.popleft()

    def _time(self, question: _Question, reply: Any, _now: float) -> None:
        if not isinstance(reply, ResponseError):
            question.now_ms = int(reply[0]) * 1000 + int(reply[1]) / 1000

    def _first(self, question: _Question, queue: bytes, reply: Any, now: float) -> None:
        if isinstance(reply, ResponseError) or question.now_ms is None:
            self._board.not_read(queue, now)
        elif not reply:
            self._board.was_read(queue, None, now)
        else:
            score = reply[0][1] if isinstance(reply[0], list) else reply[1]
            self._board.was_read(queue, (float(score) - question.now_ms) / 1000, now)

    def _listed(self, queue: bytes, reply: Any, now: float) -> None:
        if not isinstance(reply, ResponseError):
            self._board.was_listed(queue, bool(reply), now)
        elif code_of(reply) == "NOPERM":
            self._asks_names = False  # then a deleted queue is noticed later


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
        self._board = Board(opening=pool is not None)
        self._news = News(self._board, namespace)
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
        if self._connection is not None and self._news.ask_at(moment) <= moment:
            self._send(self._news.question(moment))
            self._wakes_at = -math.inf  # the reply wakes the thread

    def _wake_thread(self) -> None:
        """Wake the thread if it sleeps for longer than it should by now; the lock is held."""
        if self._connection is not None and self._board.next_look() < self._wakes_at:
            self._send(self._news.ping(now()))
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
                next_look = min(next_look, idle_since + IDLE, self._news.ask_at(moment))
                pause = max(0.0, next_look - moment)
                connection = self._connection
                if connection is None:
                    self._connect_if_due(moment)
                    self._lock.wait(min(pause, max(0.001, self._connect_at - moment)))
                    continue
                silent = self._news.overdue(moment) <= 0
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
                    self._news.heard(said, now())
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
