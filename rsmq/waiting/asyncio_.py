"""
The watcher of the asyncio client: two tasks and one connection for all waiting receives.

``watcher_state.py`` decides; this module carries the decisions out. ``threads.py`` does the same
with a thread.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from redis.asyncio.retry import Retry as RedisRetry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from rsmq.errors import ClientClosed
from rsmq.transport.asyncio_.caller import AsyncCaller
from rsmq.transport.clock import now
from rsmq.transport.redis_py import set_invalidation_handler
from rsmq.waiting.schedule import Waiter
from rsmq.waiting.tracking import MAX_REPLIES, tracking_options
from rsmq.waiting.watcher_state import Action, WatcherState
from rsmq.wire.keys import Namespace

T = TypeVar("T")

CONNECT_TIMEOUT_SECONDS = 5.0


class AsyncWatcher:
    """Tasks of one event loop that wake waiting receives when there may be a message."""

    def __init__(
        self,
        caller: AsyncCaller,
        namespace: Namespace,
    ) -> None:
        """
        Create a watcher; nothing is opened before the first wait.

        Args:
            caller: knows the server for the tracking connection.
            namespace: the namespace of the queues.
        """
        self._caller = caller
        self._index = namespace.queues
        self._state = WatcherState(namespace, now(), address_of=caller.address_of)
        self._connection: Any = None
        self._connector: asyncio.Task[None] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._worker: asyncio.Task[None] | None = None
        self._state_changed = asyncio.Event()
        self._closed = False
        self._is_abandoned = False

    async def wait(
        self,
        receive: Callable[[], Awaitable[T]],
        undo: Callable[[T], object],
        nothing: T,
        queues: Iterable[bytes],
        seconds: float | None,
    ) -> T:
        """
        Wait until a receive returns messages, and return them.

        Args:
            receive: receives; its result is falsy without a message. If it is cancelled, it undoes
                its receive itself.
            undo: not called, see ``receive``; ``Watcher.wait`` has the same parameter.
            nothing: the result at the deadline: that of an earlier, empty receive.
            queues: the sorted sets to wait for.
            seconds: the longest wait; None is forever.

        Raises:
            ClientClosed: close() was called.
            RuntimeError: the watcher has failed; the next wait starts it again.
        """
        del undo
        until = None if seconds is None else now() + seconds
        event = asyncio.Event()
        waiter = Waiter(tuple(queues), event.set)
        waiter.note_limits(nothing)
        schedule = self._state.schedule
        try:
            while True:
                event.clear()
                self.add(waiter)
                with suppress(TimeoutError):
                    async with asyncio.timeout(None if until is None else until - now()):
                        await event.wait()
                schedule.remove(waiter)
                waiter.raise_failure()
                if not waiter.is_awake and not self._closed:
                    return nothing
                received = await receive()  # raises if the client is closed
                if received:
                    self.note_receive(waiter)
                    return received
                waiter.empty_receives += 1
                waiter.note_limits(received)
        finally:
            self.remove(waiter)

    def add(self, waiter: Waiter) -> None:
        """
        Add a waiter, for the first time or after an empty receive. It is woken once.

        Raises:
            ClientClosed: close() was called.
        """
        if self._closed:
            raise ClientClosed
        self._state.schedule.add(waiter, now())
        self._state_changed.set()
        if self._worker is None or self._worker.done():
            self._state.begin(now())
            self._worker = asyncio.ensure_future(self._work())
            self._worker.add_done_callback(self._note_end)

    def note_receive(self, waiter: Waiter) -> None:
        """Note that a woken waiter received messages."""
        waiter.is_awake = False
        self._state.schedule.note_receive(waiter, now())
        self._state_changed.set()

    def remove(self, waiter: Waiter) -> None:
        """Remove a waiter; if it was woken and has not received, another one is woken instead."""
        self._state.schedule.remove(waiter)
        if waiter.is_awake:
            self._state.schedule.note_interruption(waiter, now())

    async def close(self) -> None:
        """End all waits with ClientClosed, and end the tasks."""
        self._closed = True
        self._state.schedule.wake_all()
        worker = self._worker
        if worker is not None:
            worker.cancel()
            await asyncio.wait((worker,))

    def abandon(self) -> None:
        """End the tasks as soon as nothing waits: the client was freed without being closed."""
        self._is_abandoned = True
        self._state_changed.set()

    def _note_end(self, worker: asyncio.Task[None]) -> None:
        """
        Wake all waiters at the end of the worker, which they then start again.

        A program that cancels all tasks cancels the worker, too.
        """
        failure = None if worker.cancelled() else worker.exception()
        if worker is self._worker:
            self._worker = None
            self._state.schedule.wake_all(failure)

    async def _work(self) -> None:
        try:
            while True:
                self._state_changed.clear()
                await self._note_ended_tasks()
                step = self._state.next_step(now())
                is_unused = self._is_abandoned and not self._state.schedule
                if is_unused or step.action is Action.END:
                    return
                if step.action is Action.CONNECT:
                    self._connector = self._start(self._connect())
                elif step.action is Action.SEND:
                    await self._send(step.request)
                elif step.action is Action.DISCONNECT:
                    await self._disconnect(step.error)
                else:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(max(0.001, step.seconds)):
                            await self._state_changed.wait()
        finally:
            if self._connector is not None:
                self._connector.cancel()
            await self._disconnect()

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(coroutine)
        task.add_done_callback(lambda _: self._state_changed.set())
        return task

    async def _note_ended_tasks(self) -> None:
        """Note that the connector or the reader was cancelled by other code, or has failed."""
        connector, reader = self._connector, self._reader
        if connector is not None and connector.done():
            self._connector = None
            if connector.cancelled():
                self._state.note_disconnected(now())
            elif (error := connector.exception()) is not None:
                self._state.note_connect_failed(error, now())
        if reader is not None and reader.done():
            await self._disconnect(None if reader.cancelled() else reader.exception())

    async def _send(self, request: bytes) -> None:
        try:
            await self._connection.send_packed_command(request)
        except (RedisError, OSError) as error:
            await self._disconnect(error)

    async def _disconnect(self, error: BaseException | None = None) -> None:
        if error is not None:
            self._caller.note_lost(self._index, error)
        connection, self._connection = self._connection, None
        reader, self._reader = self._reader, None
        self._state.note_disconnected(now())
        if reader is not None and reader is not asyncio.current_task():
            reader.cancel()
        if connection is not None:
            await connection.disconnect(nowait=True)

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
                connection = await self._tracking_connection()
        except Exception as error:  # noqa: BLE001 - the receives of the waiters raise it
            self._state.note_connect_failed(error, now())
            self._caller.note_lost(self._index, error)
        else:
            self._connection = connection
            self._state.note_connected(now(), connection)
            self._reader = self._start(self._read(connection))
        self._connector = None
        self._state_changed.set()

    async def _tracking_connection(self) -> Any:
        pool = await self._caller.tracking_pool(self._index)
        options = tracking_options(pool)
        # Reads have no timeout: the state notices replies that are overdue.
        options |= {"retry": RedisRetry(NoBackoff(), 0), "socket_timeout": None}
        connection = pool.connection_class(**options)

        async def return_report(report: Any) -> Any:
            return report

        try:
            await connection.connect()
            set_invalidation_handler(connection, return_report)
            await connection.send_command("CLIENT", "TRACKING", "ON", "NOLOOP")
            await connection.read_response()
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection

    async def _read(self, connection: Any) -> None:
        """Read and process what the server sends, until the connection is replaced."""
        for number in itertools.count(1):
            if self._connection is not connection:
                return
            if number % MAX_REPLIES == 0:  # so that other tasks run
                await asyncio.sleep(0)
            try:
                answer = await connection.read_response(
                    disable_decoding=True, disconnect_on_error=False, push_request=True
                )
            except ResponseError as error:
                answer = error
            except (RedisError, OSError) as error:
                await self._disconnect(error)
                self._state_changed.set()
                return
            self._state.tracking.handle(answer, now())
            request = self._state.next_request(now())
            if request:
                await self._send(request)
            self._state_changed.set()


class AsyncWatchers:
    """The watchers of a client, one for each event loop."""

    def __init__(self, caller: AsyncCaller, namespace: Namespace) -> None:
        self._caller = caller
        self._namespace = namespace
        self._watchers: dict[asyncio.AbstractEventLoop, AsyncWatcher] = {}
        self._closed = False

    def current(self) -> AsyncWatcher:
        """
        Return the watcher of the running event loop.

        Raises:
            ClientClosed: close() was called.
        """
        if self._closed:
            raise ClientClosed
        loop = asyncio.get_running_loop()
        watcher = self._watchers.get(loop)
        if watcher is None:
            for other in list(self._watchers):
                if other.is_closed():
                    self._watchers.pop(other, None)
            watcher = AsyncWatcher(self._caller, self._namespace)
            self._watchers[loop] = watcher
        return watcher

    async def close(self) -> None:
        """End all waits with ClientClosed, and end the tasks of all event loops."""
        self._closed = True
        running = asyncio.get_running_loop()
        for loop, watcher in list(self._watchers.items()):
            if loop is running:
                await watcher.close()
            elif not loop.is_closed():
                asyncio.run_coroutine_threadsafe(watcher.close(), loop)

    def __del__(self) -> None:
        for loop, watcher in list(self._watchers.items()):
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(watcher.abandon)
