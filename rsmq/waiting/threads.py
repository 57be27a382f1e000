"""
The watcher of the synchronous client: one thread and one connection for all waiting receives.

The server reports changes of the queues on the connection, which is used for nothing else.
``watcher_state.py`` decides; this module carries the decisions out. ``asyncio_.py`` does the same
for asyncio.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry as RedisRetry

from rsmq.errors import ClientClosed
from rsmq.errors.misuse import warn_in_event_loop
from rsmq.transport.clock import now
from rsmq.transport.signals import DeferredSignals, Flag
from rsmq.transport.socket import SocketConnection
from rsmq.transport.threads.caller import Caller
from rsmq.waiting.schedule import Waiter
from rsmq.waiting.tracking import MAX_REPLIES, REPLY_TIMEOUT_SECONDS, tracking_options
from rsmq.waiting.watcher_state import Action, WatcherState
from rsmq.wire.keys import Namespace

T = TypeVar("T")


class Watcher:
    """A thread that wakes waiting receives when there may be a message."""

    def __init__(
        self,
        caller: Caller,
        namespace: Namespace,
    ) -> None:
        """
        Create a watcher; nothing is opened before the first wait.

        Args:
            caller: knows the server for the tracking connection. A thread that waits makes its
                idle connection available to other threads before it sleeps.
            namespace: the namespace of the queues.
        """
        self._caller = caller
        self._index = namespace.queues
        self._pid = os.getpid()
        self._lock = threading.Condition()
        self._state = WatcherState(namespace, now(), address_of=caller.address_of)
        self._connection: Any = None
        self._wakes_at = -math.inf
        self._is_resting = False
        self._thread: threading.Thread | None = None
        self._closed = False
        self._is_abandoned = False

    def wait(
        self,
        receive: Callable[[], T],
        undo: Callable[[T], object],
        nothing: T,
        queues: Iterable[bytes],
        seconds: float | None,
    ) -> T:
        """
        Wait until a receive returns messages, and return them.

        Args:
            receive: receives; its result is falsy without a message.
            nothing: the result at the deadline: that of an earlier, empty receive.
            queues: the sorted sets to wait for.
            seconds: the longest wait; None is forever.

        Raises:
            ClientClosed: close() was called.
            RuntimeError: the watcher has failed; the next wait starts it again.
        """
        warn_in_event_loop()
        until = None if seconds is None else now() + seconds
        flag = Flag()
        waiter = Waiter(tuple(queues), flag.set)
        waiter.note_limits(nothing)
        received = nothing
        try:
            while True:
                with DeferredSignals():
                    flag.clear()
                    self.add(waiter)
                self._caller.release_idle_connection()
                flag.wait(None if until is None else until - now())
                with DeferredSignals(), self._lock:
                    self._state.schedule.remove(waiter)
                waiter.raise_failure()
                if not waiter.is_awake and not self._closed:
                    return nothing
                received = receive()  # raises if the client is closed
                if received:
                    self.note_receive(waiter)
                    return received
                waiter.empty_receives += 1
                waiter.note_limits(received)
        except BaseException:
            self.remove(waiter)
            if received:
                undo(received)
            raise

    def add(self, waiter: Waiter) -> None:
        """
        Add a waiter, for the first time or after an empty receive. It is woken once.

        Raises:
            ClientClosed: close() was called.
        """
        with self._lock:
            if self._closed:
                raise ClientClosed
            self._state.schedule.add(waiter, now())
            self._send_due_request()
            self._wake_thread()
            if self._thread is None or not self._thread.is_alive():
                self._state.begin(now())
                thread = threading.Thread(target=self._work, name="rsmq-watcher", daemon=True)
                try:
                    thread.start()
                except Exception as error:  # noqa: BLE001 - all waiters raise it
                    self._state.schedule.wake_all(error)
                else:
                    self._thread = thread
            elif self._is_resting:
                self._lock.notify()

    def note_receive(self, waiter: Waiter) -> None:
        """Note that a woken waiter received messages."""
        with DeferredSignals(), self._lock:
            waiter.is_awake = False
            self._state.schedule.note_receive(waiter, now())
            self._wake_thread()

    @property
    def is_tracking(self) -> bool:
        """Whether the server reports changes."""
        return self._state.schedule.is_tracking

    def remove(self, waiter: Waiter) -> None:
        """Remove a waiter; if it was woken and has not received, another one is woken instead."""
        with DeferredSignals(), self._lock:
            self._state.schedule.remove(waiter)
            if waiter.is_awake:
                self._state.schedule.note_interruption(waiter, now())
                self._wake_thread()

    def close(self) -> None:
        """End all waits with ClientClosed, and end the thread."""
        if self._pid != os.getpid():
            return
        with DeferredSignals(), self._lock:
            self._closed = True
            self._state.schedule.wake_all()
            thread, self._thread = self._thread, None
            if self._connection is not None:
                with suppress(RedisError, OSError):  # the reply wakes the thread
                    self._connection.send_command("TIME")
            self._lock.notify()
        if thread is not None and thread is not threading.current_thread():
            thread.join(1)

    def abandon(self) -> None:
        """
        End the thread as soon as nothing waits: the client was freed without being closed.

        Any thread may call it at any point, as the garbage collection does. So it waits for no
        lock; if it could not wake the thread, that ends after IDLE_SECONDS.
        """
        if self._pid != os.getpid():
            return
        self._is_abandoned = True
        connection = self._connection
        if connection is not None:
            connection.abort()
        if self._lock.acquire(blocking=False):
            self._lock.notify()
            self._lock.release()

    def _send_due_request(self) -> None:
        """Send the request that is due, if any. The caller holds the lock."""
        if self._connection is not None:
            self._send(lambda: self._state.next_request(now()))

    def _wake_thread(self) -> None:
        """Wake the thread if the next wake-up is before its end of sleep. Needs the lock."""
        if self._connection is not None and self._state.schedule.next_wake_up() < self._wakes_at:
            self._send(lambda: self._state.tracking.ping(now()))

    def _send(self, create_request: Callable[[], bytes]) -> None:
        """
        Send a request that is created here, if it is not empty.

        The state expects the replies of each request that it has created, in their order. So any
        exception before all bytes are sent closes the connection.
        """
        connection = self._connection
        try:
            request = create_request()
            if request:
                self._wakes_at = -math.inf  # the reply wakes the thread
                connection.send_packed_command((request,))
        except BaseException as error:
            connection.abort()  # wakes the thread
            self._note_disconnected(error)
            if not isinstance(error, RedisError | OSError):
                raise

    def _note_disconnected(self, error: BaseException | None) -> None:
        self._connection = None
        self._state.note_disconnected(now())
        if error is not None:
            self._caller.note_lost(self._index, error)

    def _work(self) -> None:
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001 - all waiters raise it
            with self._lock:
                self._thread = None
                connection = self._connection
                if connection is not None:
                    self._note_disconnected(error)
                self._state.schedule.wake_all(error)
            if connection is not None:
                connection.disconnect()

    def _run(self) -> None:
        while True:
            with self._lock:
                step = self._state.next_step(now())
                connection = self._connection
                is_unused = self._is_abandoned and not self._state.schedule
                if self._closed or is_unused or step.action is Action.END:
                    self._thread = None
                    if connection is not None:
                        self._note_disconnected(None)
                    break
                if step.action is Action.SEND:
                    self._send(partial(bytes, step.request))
                    continue
                if step.action is Action.CONNECT:
                    self._start_connecting()
                    continue
                if step.action is Action.DISCONNECT:
                    self._note_disconnected(step.error)
                elif connection is None:
                    self._is_resting = True
                    self._lock.wait(max(0.001, step.seconds))
                    self._is_resting = False
                    continue
                # Other threads send requests meanwhile, whose replies may become overdue.
                pause = min(step.seconds, REPLY_TIMEOUT_SECONDS / 2)
                self._wakes_at = now() + pause
            if step.action is Action.DISCONNECT:
                connection.disconnect()
            else:
                self._read(connection, pause)
        if connection is not None:
            connection.disconnect()

    def _start_connecting(self) -> None:
        """Connect in a thread of its own, because it may take long. Needs the lock."""
        thread = threading.Thread(target=self._connect, name="rsmq-connect", daemon=True)
        try:
            thread.start()
        except Exception as error:  # noqa: BLE001 - no thread can be started now
            self._state.note_connect_failed(error, now())

    def _connect(self) -> None:
        connection = None
        try:
            connection = self._tracking_connection()
        except BaseException as failure:  # noqa: BLE001 - the receives of the waiters raise it
            error = failure
        with self._lock:
            if connection is None:
                self._state.note_connect_failed(error, now())
                self._caller.note_lost(self._index, error)
            elif self._thread is None:  # the watcher has ended
                self._state.note_disconnected(now())
            else:
                self._connection, connection = connection, None
                self._state.note_connected(now(), self._connection.connection)
                self._send_due_request()
            self._lock.notify()
        if connection is not None:
            connection.disconnect()

    def _tracking_connection(self) -> Any:
        pool = self._caller.tracking_pool(self._index)
        options = tracking_options(pool)
        options["retry"] = RedisRetry(NoBackoff(), 0)
        connection = pool.connection_class(**options)
        try:
            connection.connect()
            connection.send_command("CLIENT", "TRACKING", "ON", "NOLOOP")
            connection.read_response()
        except BaseException:
            connection.disconnect()
            raise
        return SocketConnection(connection)

    def _read(self, connection: Any, seconds: float) -> None:
        """Read and process what the server sends within that time."""
        try:
            if connection.can_read(timeout=seconds):
                self._process(connection, _read_available(connection))
        except Exception as error:  # noqa: BLE001 - redis-py's own if another thread disconnected
            with self._lock:
                if self._connection is connection:
                    self._note_disconnected(None if self._is_abandoned else error)
        if self._connection is not connection:
            connection.disconnect()

    def _process(self, connection: Any, answers: list[Any]) -> None:
        with self._lock:
            if self._connection is connection and not self._closed:
                for answer in answers:
                    self._state.tracking.handle(answer, now())
                self._send_due_request()


def _read_available(connection: SocketConnection) -> list[Any]:
    """Return the replies and reports that have arrived, at least one; errors are not raised."""
    answers: list[Any] = []
    while len(answers) < MAX_REPLIES and (not answers or connection.can_read()):
        try:
            answers.append(connection.read_response(push_request=True))
        except ResponseError as error:
            answers.append(error)
    return answers


class Watchers:
    """The watchers of a client, one for each process: a thread does not survive a fork."""

    def __init__(self, caller: Caller, namespace: Namespace) -> None:
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
            new = Watcher(self._caller, self._namespace)
            watcher = self._watchers.setdefault(process, new)  # atomic among threads
        if self._closed:  # another thread may have closed the client since
            watcher.close()
            raise ClientClosed
        return watcher

    def close(self) -> None:
        """End all waits with ClientClosed, and end the threads."""
        self._closed = True
        for watcher in list(self._watchers.values()):
            watcher.close()

    def __del__(self) -> None:
        for watcher in list(self._watchers.values()):
            watcher.abandon()
