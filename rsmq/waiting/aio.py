"""
The watcher of the asyncio client: one task and one connection for all waiting receives.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from redis.asyncio.retry import Retry as RedisRetry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from rsmq.errors import ClientClosed
from rsmq.transport.aio import AsyncCaller
from rsmq.transport.redis_py import set_invalidation_handler
from rsmq.waiting.schedule import Board, Waiter
from rsmq.waiting.sync import IDLE, REPLIES, now
from rsmq.waiting.tracking import RECONNECT, Tracking, retry_tracking, tracking_options
from rsmq.wire.keys import Namespace

T = TypeVar("T")

#: Seconds that connecting may take.
CONNECT = 5.0


class AsyncWatcher:
    """Lets tasks of one event loop wait until there may be something to receive."""

    def __init__(self, pool: Any, namespace: Namespace) -> None:
        """As of ``Watcher``."""
        self._pool = pool
        self._namespace = namespace
        self._board = Board(opening=pool is not None)
        self._tracking = Tracking(self._board, namespace)
        self._connection: Any = None
        self._connect_at = now() if pool is not None else math.inf
        self._connector: asyncio.Task[None] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._clock: asyncio.Task[None] | None = None
        self._kick = asyncio.Event()
        self._closed = False

    async def wait(
        self,
        look: Callable[[], Awaitable[T]],
        give_back: Callable[[T], object],
        nothing: T,
        queues: Iterable[bytes],
        seconds: float | None,
    ) -> T:
        """
        Return the result of a look, once there is something to find.

        Args:
            look: a receive, whose result is falsy when there is nothing. If it is cancelled, it
                gives back what it found by itself.
            give_back: not called, for the reason above; it is there as of ``Watcher.wait``.
            nothing: the result of an earlier look, returned at the deadline.
            queues: the sorted sets to wait for.
            seconds: the longest wait; None is forever.

        Raises:
            ClientClosed: close() was called meanwhile.
        """
        del give_back
        until = None if seconds is None else now() + seconds
        event = asyncio.Event()
        waiter = Waiter(tuple(queues), event.set)
        try:
            while True:
                event.clear()
                self._enter(waiter)
                with suppress(TimeoutError):
                    async with asyncio.timeout(None if until is None else until - now()):
                        await event.wait()
                self._board.leave(waiter)
                if not waiter.awake and not self._closed:
                    return nothing
                found = await look()  # which a closed client refuses
                if found:
                    waiter.awake = False
                    self._board.found(waiter, now())
                    self._kick.set()
                    return found
                waiter.looks += 1
        finally:
            self._board.leave(waiter)
            if waiter.awake:  # it was sent, and did not look to the end
                self._board.failed(waiter, now())

    def _enter(self, waiter: Waiter) -> None:
        if self._closed:
            raise ClientClosed
        self._board.enter(waiter, now())
        self._kick.set()
        if self._clock is None or self._clock.done():
            self._clock = asyncio.ensure_future(self._work())

    async def close(self) -> None:
        """End all waits with an error, and the tasks."""
        self._closed = True
        self._board.send_all()
        clock = self._clock
        if clock is not None:
            clock.cancel()
            with suppress(asyncio.CancelledError):
                await clock

    async def _work(self) -> None:
        """Send who must look, ask what is to be read, and keep the connection."""
        idle_since = now()
        try:
            while True:
                moment = now()
                if self._board:
                    idle_since = moment
                elif moment - idle_since >= IDLE:
                    return
                self._kick.clear()
                next_look = self._board.send_who_must_look(moment)
                await self._ask()
                pause = min(next_look, idle_since + IDLE) - moment
                if self._connection is None:
                    if moment >= self._connect_at:
                        self._connect_at = math.inf  # until this attempt has ended
                        self._connector = asyncio.ensure_future(self._connect())
                    pause = min(pause, self._connect_at - moment)
                elif self._tracking.seconds_until_overdue(moment) <= 0:
                    await self._lose()
                    continue
                else:
                    overdue_in = self._tracking.seconds_until_overdue(moment)
                    pause = min(pause, overdue_in, self._tracking.next_request_at(moment) - moment)
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(0.001, pause)):
                        await self._kick.wait()
        finally:
            self._clock = None
            if self._connector is not None:
                self._connector.cancel()
            await self._lose()

    async def _ask(self) -> None:
        moment = now()
        if self._connection is not None and self._tracking.next_request_at(moment) <= moment:
            try:
                await self._connection.send_packed_command(self._tracking.next_request(moment))
            except (RedisError, OSError):
                await self._lose()

    async def _lose(self) -> None:
        connection, self._connection = self._connection, None
        reader, self._reader = self._reader, None
        self._board.end_telling(now())
        if reader is not None and reader is not asyncio.current_task():
            reader.cancel()
        if connection is not None:
            await connection.disconnect(nowait=True)

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(CONNECT):
                connection = await self._tracking_connection()
        except Exception as error:  # noqa: BLE001 - those who look will learn why
            self._connect_at = now() + retry_tracking(error)
            self._board.opening = False
        else:
            self._connect_at = now() + RECONNECT  # should it be lost
            self._connection = connection
            self._tracking = Tracking(self._board, self._namespace)
            self._board.begin_telling(now())
            self._reader = asyncio.ensure_future(self._hear(connection))
        self._connector = None
        self._kick.set()

    async def _tracking_connection(self) -> Any:
        options = tracking_options(self._pool)
        # Nothing is read in haste here; who looks has a time limit of its own.
        options |= {"retry": RedisRetry(NoBackoff(), 0), "socket_timeout": None}
        connection = self._pool.connection_class(**options)

        async def as_it_is(said: Any) -> Any:
            return said

        try:
            await connection.connect()
            set_invalidation_handler(connection, as_it_is)
            await connection.send_command("CLIENT", "TRACKING", "ON", "NOLOOP")
            await connection.read_response()
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection

    async def _hear(self, connection: Any) -> None:
        for number in itertools.count(1):
            if self._connection is not connection:
                return
            if number % REPLIES == 0:  # others have their turn, too
                await asyncio.sleep(0)
            try:
                said = await connection.read_response(
                    disable_decoding=True, disconnect_on_error=False, push_request=True
                )
            except ResponseError as error:
                said = error
            except (RedisError, OSError):
                await self._lose()
                self._kick.set()
                return
            self._tracking.handle(said, now())
            await self._ask()
            self._kick.set()


class AsyncWatchers:
    """The watcher of each event loop that uses a client."""

    def __init__(self, caller: AsyncCaller, namespace: Namespace) -> None:
        """
        Make them; nothing is opened.

        Args:
            caller: the client's.
            namespace: the namespace of the queues.
        """
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
            watcher = AsyncWatcher(self._caller.watched_pool(), self._namespace)
            self._watchers[loop] = watcher
        return watcher

    async def close(self) -> None:
        """End all waits with ClientClosed, and the tasks of all loops."""
        self._closed = True
        running = asyncio.get_running_loop()
        for loop, watcher in list(self._watchers.items()):
            if loop is running:
                await watcher.close()
            elif not loop.is_closed():
                asyncio.run_coroutine_threadsafe(watcher.close(), loop)
