"""
One connection for all calls of an event loop.

Commands of concurrent calls are sent together, and their replies arrive in the same order. A call
that waits for its reply does not delay other calls, and a cancelled call leaves the connection
intact. redis-py opens the connection (TLS, user, database). Its own reading and writing of single
commands is not used, because it takes more time than Redis needs for a command.
"""

from __future__ import annotations

import asyncio
import select
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import hiredis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from rsmq.errors import ClientClosed
from rsmq.transport.redis_py import detach_writer, make_reader
from rsmq.transport.retry import INTERRUPTION_GRACE_SECONDS
from rsmq.transport.signals import DeferredSignals
from rsmq.transport.socket import CHECKS_PER_TIMEOUT, LARGE_SEND_BYTES, pack, unsent_bytes

_INCOMPLETE = object()

#: The number of bytes in one write to the transport, which reports after each write whether its
#: buffer is full.
_WRITE_BYTES = 65_536

#: Seconds after which connecting is cancelled again while the connection is being closed.
_CANCEL_INTERVAL_SECONDS = 0.05


class NotSent(RedisConnectionError):
    """The connection was closed before any part of the command was sent."""


class State(Enum):
    """The state of a connection: which calls may use it."""

    OPEN = "open"  # all calls
    RETIRED = "retired"  # the calls that use it already; it is closed when they have ended
    CLOSED = "closed"  # no calls


class Request:
    """
    Commands that were sent together, and their replies.

    Attributes:
        sent_at: the time of the event loop when they were sent.
        replies: the replies that have arrived, error replies as exceptions.
    """

    __slots__ = ("_future", "_is_done", "_loop", "_reply_count", "replies", "sent_at")

    def __init__(self, loop: asyncio.AbstractEventLoop, reply_count: int) -> None:
        self._loop = loop
        self._reply_count = reply_count
        self._future = loop.create_future()
        self._is_done = False
        self.sent_at = loop.time()
        self.replies: list[Any] = []

    async def wait(self) -> list[Any]:
        """Wait for all replies, and return them. May be called again after a cancellation."""
        if self._future.cancelled():
            self._future = self._loop.create_future()
            if self._is_done:
                self._future.set_result(self.replies)
        await self._future
        return self.replies

    def add_reply(self, reply: Any) -> bool:
        """Add the next reply, and return whether it was the last one."""
        self.replies.append(reply)
        self._is_done = len(self.replies) == self._reply_count
        if self._is_done and not self._future.done():
            self._future.set_result(None)
        return self._is_done

    def fail(self, error: Exception) -> None:
        """Add an error for each reply that has not arrived: none will."""
        self.replies += [error] * (self._reply_count - len(self.replies))
        self._is_done = True
        if not self._future.done():
            self._future.set_result(None)


class MultiplexedConnection(asyncio.Protocol):
    """
    An open connection that the calls of one event loop share.

    Attributes:
        state: which calls may use it.
        calls: the number of calls that use the connection. After a call ends, the caller runs
            ``close_if_unused`` unless the state is OPEN.
    """

    def __init__(self, connection: Any) -> None:
        """Take over the socket of a connection that redis-py has opened in the running loop."""
        self.state = State.OPEN
        self._loop = asyncio.get_running_loop()
        self._reader = make_reader(connection, _INCOMPLETE)
        self._timeout = connection.socket_timeout
        self.calls = 0
        self._pending: deque[Request] = deque()
        self._unpacked: list[tuple[bytes, ...]] = []  # the commands of this iteration of the loop
        self._unsent: list[bytes | memoryview] = []
        self._is_flush_scheduled = False
        # Whether the last call that was sent was the only one. The next one is probably too.
        self._is_sequential = False
        self._is_write_paused = False  # the buffer of the transport is full
        self._progress_at = 0.0
        self._written_bytes = 0  # since the connection was opened
        self._confirmed_bytes = 0  # of these, the bytes that the peer has certainly received
        self._send_check_timer: asyncio.TimerHandle | None = None
        self._timeout_timer: asyncio.TimerHandle | None = None
        self._connection_lost = asyncio.Event()
        # A reference is kept here, because the writer closes the socket when it is freed.
        self._writer = detach_writer(connection)
        self._transport = self._writer.transport
        self._transport.set_protocol(self)
        self._transport.set_write_buffer_limits(high=_WRITE_BYTES)
        self._has_data = make_data_check(self.socket)

    @property
    def is_broken(self) -> bool:
        """Whether the peer has closed the idle connection, or has sent unexpected data."""
        return not self._pending and self._has_data()

    @property
    def socket(self) -> Any:
        """The socket of the connection; None if the transport has none."""
        return self._transport.get_extra_info("socket")

    def send(self, commands: Sequence[tuple[bytes, ...]]) -> Request:
        """
        Send commands, together with all others of this iteration of the event loop.

        If calls are made one after another, commands are sent at once. This saves an iteration.

        Raises:
            NotSent: the connection is closed.
        """
        if self.state is State.CLOSED:
            raise NotSent("Connection is closed.")
        request = Request(self._loop, len(commands))
        self._unpacked += commands
        is_alone = not self._pending
        self._pending.append(request)
        if is_alone and self._is_sequential:
            self._flush()
        elif not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            self._loop.call_soon(self._flush)
        if self._timeout and self._timeout_timer is None:
            self._timeout_timer = self._loop.call_later(self._timeout, self._check_timeout)
        return request

    def retire(self) -> None:
        """Accept no new calls; close when the calls that use the connection have ended."""
        if self.state is State.OPEN:
            self.state = State.RETIRED
        self.close_if_unused()

    def close_if_unused(self) -> None:
        """Close the connection if it is retired and no call uses it."""
        if self.state is State.RETIRED and not self.calls:
            self.close()

    def close(self, error: Exception | None = None) -> None:
        """
        Close the connection now. Calls that wait for a reply raise an error.

        Args:
            error: the error of these calls. Unsent data is dropped if there is an error, or if the
                buffer of the transport was too small for the data; else it is still sent.
        """
        if self.state is State.CLOSED:
            return
        self.state = State.CLOSED
        for timer in (self._timeout_timer, self._send_check_timer):
            if timer is not None:
                timer.cancel()
        if error is None and not self._unsent and not self._unpacked:
            self._writer.close()
        else:  # close() would first wait until all data is sent
            self._transport.abort()
        self._unsent.clear()
        self._unpacked.clear()
        pending, self._pending = self._pending, deque()
        for request in pending:
            request.fail(error or RedisConnectionError("Connection closed by this client."))

    async def wait_closed(self, seconds: float) -> None:
        """Wait until the socket is closed. After ``seconds``, drop unsent data and close it."""
        try:
            async with asyncio.timeout(seconds):
                await self._connection_lost.wait()
        except TimeoutError:
            self._transport.abort()
            await self._connection_lost.wait()

    def data_received(self, data: bytes) -> None:
        self._progress_at = self._loop.time()
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not _INCOMPLETE:
                if not isinstance(reply, hiredis.PushNotification):
                    self._handle_reply(reply)
        except RedisError as error:  # the data is not a reply of Redis
            self.close(RedisConnectionError(str(error)))

    def connection_lost(self, exc: Exception | None) -> None:
        text = f"Error while reading: {exc}" if exc else "Connection closed by server."
        self._connection_lost.set()
        self.close(RedisConnectionError(text))

    def pause_writing(self) -> None:
        self._is_write_paused = True

    def resume_writing(self) -> None:
        self._is_write_paused = False
        self._progress_at = self._loop.time()
        if self._unsent or self._unpacked:
            self._flush()

    def _flush(self) -> None:
        self._is_flush_scheduled = False
        if self._is_write_paused or self.state is State.CLOSED:
            return  # resume_writing calls this again
        with DeferredSignals():  # see signals.py
            self._write()

    def _write(self) -> None:
        """Pack and write the commands that wait, as far as the buffer of the transport allows."""
        self._is_sequential = len(self._pending) == 1
        unpacked, self._unpacked = self._unpacked, []
        unsent, self._unsent = self._unsent, []
        unsent += [piece for command in unpacked for piece in pack(command)]
        size = sum(map(len, unsent))
        self._written_bytes += size
        if size > LARGE_SEND_BYTES and self._timeout and self._send_check_timer is None:
            self._schedule_send_check()
        if size <= _WRITE_BYTES:  # nearly always
            self._transport.write(b"".join(unsent))
            return
        remaining: deque[bytes | memoryview] = deque(unsent)
        while remaining and not self._is_write_paused:
            self._transport.write(_take_first_bytes(remaining, _WRITE_BYTES))
        self._unsent = list(remaining)
        self._written_bytes -= sum(map(len, self._unsent))

    def _handle_reply(self, reply: Any) -> None:
        if self._pending and self._pending[0].add_reply(reply):
            self._pending.popleft()

    def _schedule_send_check(self) -> None:
        self._send_check_timer = self._loop.call_later(
            self._timeout / CHECKS_PER_TIMEOUT, self._check_send_progress
        )

    def _check_send_progress(self) -> None:
        """Store the time if the peer has received data, until it has received all written data."""
        self._send_check_timer = None
        unsent = self._transport.get_write_buffer_size() + unsent_bytes(self.socket)
        if self._written_bytes - unsent > self._confirmed_bytes:
            self._confirmed_bytes = self._written_bytes - unsent
            self._progress_at = self._loop.time()
        if unsent:
            self._schedule_send_check()

    def _check_timeout(self) -> None:
        """Close the connection if nothing was received or sent for the whole timeout."""
        self._timeout_timer = None
        if not self._pending:
            return
        quiet_since = max(self._pending[0].sent_at, self._progress_at)
        seconds_left = quiet_since + self._timeout - self._loop.time()
        if seconds_left <= 0:
            self.close(RedisTimeoutError("Timeout reading from server."))
            return
        self._timeout_timer = self._loop.call_later(seconds_left, self._check_timeout)


def _take_first_bytes(pieces: deque[bytes | memoryview], max_bytes: int) -> bytes:
    """Remove at most ``max_bytes`` bytes from the front of the pieces, and return them joined."""
    taken: list[bytes | memoryview] = []
    left = max_bytes
    while pieces and left > 0:
        piece = memoryview(pieces.popleft())
        taken.append(piece[:left])
        if len(piece) > left:
            pieces.appendleft(piece[left:])
        left -= len(taken[-1])
    return b"".join(taken)


class ReconnectingConnection:
    """The connection of one event loop, which is opened again after it failed."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._current: MultiplexedConnection | None = None
        #: The connections that are not closed: the current one and retired ones.
        self._connections: set[MultiplexedConnection] = set()
        self._opening: asyncio.Task[None] | None = None
        self._is_closing = False

    def get_open(self, *, check: bool) -> MultiplexedConnection | None:
        """Return the open connection as ``get`` does; None if it must be opened."""
        connection = self._current
        if connection is None or connection.state is not State.OPEN:
            return None
        if check and connection.is_broken:
            connection.close()
            return None
        return connection

    async def get(self, *, check: bool) -> MultiplexedConnection:
        """
        Return the open connection; open it if necessary.

        Args:
            check: if the connection is idle, check that it is not broken, and replace a broken one.

        Raises:
            ClientClosed: close() or start_closing() was called.
            RedisError, OSError: the connection can't be opened.
        """
        while not self._is_closing:
            connection = self.get_open(check=check)
            if connection is not None:
                return connection
            opening = self._opening
            if opening is None:
                opening = self._opening = asyncio.ensure_future(self._open())
                opening.add_done_callback(retrieve_exception)  # if all waiting calls are cancelled
            await asyncio.wait((opening,))
            if opening.cancelled():
                if not self._is_closing:  # by a program that cancels all tasks, for example
                    raise RedisConnectionError("Connecting was cancelled.")
            elif (error := opening.exception()) is not None:
                if not isinstance(error, (RedisError, OSError)):
                    raise error
                # Each waiting call raises its own copy of the error.
                raise type(error)(*error.args) from error
        raise ClientClosed

    async def _open(self) -> None:
        connection = self._pool.connection_class(**self._pool.connection_kwargs)
        try:
            await connection.connect()
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        else:
            if self._is_closing:  # redis-py may have swallowed the cancellation
                await connection.disconnect(nowait=True)
                return
            self._connections = {
                each for each in self._connections if each.state is not State.CLOSED
            }
            self._current = MultiplexedConnection(connection)
            self._connections.add(self._current)
        finally:
            self._opening = None

    def retire(self) -> None:
        """Close the open connection when its calls have ended; the next call opens another one."""
        if self._current is not None:
            self._current.retire()

    def start_closing(self) -> None:
        """Close the connection when its calls have ended, at the latest after the grace period."""
        self._is_closing = True
        if self._opening is not None:
            self._opening.cancel()
        for connection in self._connections:
            connection.retire()
            asyncio.get_running_loop().call_later(
                INTERRUPTION_GRACE_SECONDS, connection.close, ClientClosed()
            )

    async def close(self) -> None:
        """Close the connection when its calls have ended, and wait until it is closed."""
        opening = self._opening
        self.start_closing()
        while opening is not None and not opening.done():
            opening.cancel()  # again, because redis-py swallows some cancellations
            await asyncio.wait((opening,), timeout=_CANCEL_INTERVAL_SECONDS)
        for connection in self._connections:
            await connection.wait_closed(2 * INTERRUPTION_GRACE_SECONDS)


def make_data_check(socket: Any) -> Callable[[], bool]:
    """
    Return a function that returns whether a socket has data to read or was closed by the peer.

    For None it always returns False.
    """
    if socket is None:
        return lambda: False
    if not hasattr(select, "poll"):
        return lambda: bool(select.select([socket], [], [], 0)[0])
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return lambda: bool(poll.poll(0))


def retrieve_exception(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception of a task, so that the event loop does not log it as unretrieved."""
    if not task.cancelled():
        task.exception()
