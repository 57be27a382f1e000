"""
One connection for all calls of an event loop.

Commands of concurrent calls are sent together, and their replies arrive in the same order. A call
that waits for its reply does not delay other calls, and a cancelled call leaves the connection
intact. redis-py opens the connection (TLS, user, database). Its own reading and writing of single
commands is not used, because it takes more time than Redis needs for a command.
"""

from __future__ import annotations

import asyncio
import os
import select
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from time import monotonic
from typing import Any

import hiredis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from rsmq.errors import ClientClosed
from rsmq.operations.operation import Command, Operation
from rsmq.transport.asyncio_.call_limit import PUNCTUAL_SECONDS
from rsmq.transport.asyncio_.lent import LentTransport
from rsmq.transport.asyncio_.requests import CallRequest, Coalescer, NotSent, Request
from rsmq.transport.packing import pack_small_call
from rsmq.transport.redis_py import detach_writer, make_reader
from rsmq.transport.retry import INTERRUPTION_GRACE_SECONDS
from rsmq.transport.signals import DeferredSignals
from rsmq.transport.socket import CHECKS_PER_TIMEOUT, LARGE_SEND_BYTES, unsent_bytes
from rsmq.transport.topology.group import ServerPool

_INCOMPLETE = object()

#: The number of bytes in one write to the transport, which reports after each write whether its
#: buffer is full.
_WRITE_BYTES = 65_536

#: The number of bytes that are read at most at a time, as in asyncio.
_READ_BYTES = 262_144

#: Random bytes at the start of the buffer, which show whether data was read into it.
_UNREAD = os.urandom(8)

#: Seconds after which connecting is cancelled again while the connection is being closed.
_CANCEL_INTERVAL_SECONDS = 0.05


class ConnectionState(Enum):
    """The state of a connection: which calls may use it."""

    OPEN = "open"  # all calls
    RETIRED = "retired"  # the calls that use it already; it is closed when they have ended
    CLOSED = "closed"  # no calls


class MultiplexedConnection(asyncio.BufferedProtocol):
    """
    An open connection that the calls of one event loop share.

    Only the order tells which request a reply belongs to. So a request enters ``_pending`` after
    its commands are packed, immediately before they are written, and the connection is closed by
    any exception meanwhile, and while replies are read: also by one of a signal handler.

    Attributes:
        state: which calls may use it.
        loaded: the names of scripts that the server probably has. Calls of other scripts are not
            sent in batches: those that are sent after a missing script overtake it.
        calls: the number of calls that use the connection. After a call ends, the caller runs
            ``close_if_unused`` unless the state is OPEN.
    """

    def __init__(self, connection: Any, writer: Any, coalescer: Coalescer) -> None:
        """Take over the stream writer of a connection that redis-py has opened in the loop."""
        self._coalescer = coalescer
        self.state = ConnectionState.OPEN
        self._loop = asyncio.get_running_loop()
        self._reader = make_reader(connection, _INCOMPLETE)
        self._timeout = connection.socket_timeout
        self.calls = 0
        self._pending: deque[Request] = deque()
        self._waiting: list[Request] = []  # those of this iteration of the loop, not packed yet
        self.loaded: set[str] = set()
        # The number of those that wait, at their beginning, for a further step.
        self._unfinished = 0
        self._buffer = bytearray(_READ_BYTES)
        self._buffer_view = memoryview(self._buffer)
        self._is_reading = False  # whether data may be in the buffer that was not processed
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
        self._found_late: Request | None = None  # the oldest when the timer of timeouts was late
        self._closing_timer: asyncio.TimerHandle | None = None
        self._connection_lost = asyncio.Event()
        # A reference is kept here, because the writer closes the socket when it is freed.
        self._writer = writer
        self._transport = self._writer.transport
        self._transport.set_protocol(self)
        self._transport.set_write_buffer_limits(high=_WRITE_BYTES)
        self._has_data = make_data_check(self.socket)

    def is_broken(self) -> bool:  # not a property, which takes longer
        """Return whether the peer has closed the idle connection, or has sent unexpected data."""
        return not self._pending and not self._waiting and bool(self._has_data())

    @property
    def has_pending(self) -> bool:
        """Whether replies are expected."""
        return bool(self._pending)

    @property
    def socket(self) -> Any:
        """The socket of the connection; None if the transport has none."""
        return self._transport.get_extra_info("socket")

    def send(self, commands: Sequence[Command]) -> Request:
        """
        Send commands, together with all others of this iteration of the event loop.

        If calls are made one after another, commands are sent at once. This saves an iteration.

        Raises:
            NotSent: the connection is closed.
        """
        request = Request(self._loop, commands)
        self._send(request)
        return request

    def send_call(self, operation: Operation[Any]) -> CallRequest:
        """Send the script of an operation as ``send`` does, perhaps in a batch with others."""
        request = CallRequest(self._loop, operation)
        self._send(request, operation)
        return request

    def _send(self, request: Request, operation: Operation[Any] | None = None) -> None:
        if self.state is ConnectionState.CLOSED:
            raise NotSent("Connection is closed.")
        try:
            if self._pending or self._waiting or not self._is_sequential:
                self._waiting.append(request)
                if not self._is_flush_scheduled:
                    self._is_flush_scheduled = True
                    self._loop.call_soon(self._flush)
            elif (
                operation is not None
                and not self._is_write_paused
                and (packed := pack_small_call(operation))
                and len(packed[0]) <= LARGE_SEND_BYTES
            ):
                # As _write does, without what only many requests or bytes need.
                self._pending.append(request)
                self._written_bytes += len(packed[0])
                self._transport.write(packed[0])
            else:
                self._waiting.append(request)
                self._flush()
            if self._timeout and self._timeout_timer is None:
                self._wait_for_replies(self._timeout)
        except BaseException as error:
            self._close_after(error)
            raise

    def retire(self) -> None:
        """Accept no new calls; close when the calls that use the connection have ended."""
        if self.state is ConnectionState.OPEN:
            self.state = ConnectionState.RETIRED
        self.close_if_unused()

    def start_closing(self) -> None:
        """Close the connection when its calls have ended, at the latest after the grace period."""
        self.retire()
        if self.state is not ConnectionState.CLOSED and self._closing_timer is None:
            self._closing_timer = self._loop.call_later(
                INTERRUPTION_GRACE_SECONDS, self.close, ClientClosed()
            )

    def close_if_unused(self) -> None:
        """Close the connection if it is retired and no call uses it."""
        if self.state is ConnectionState.RETIRED and not self.calls:
            self.close()

    def close(self, error: Exception | None = None) -> None:
        """
        Close the connection now. Calls that wait for a reply raise an error.

        Args:
            error: the error of these calls. Unsent data is dropped if there is an error, or if the
                buffer of the transport was too small for the data; else it is still sent.
        """
        if self.state is ConnectionState.CLOSED:
            return
        try:
            self.state = ConnectionState.CLOSED
            if error is None and not self._unsent and not self._waiting:
                self._writer.close()
            else:  # close() would first wait until all data is sent
                self._transport.abort()
            self._fail_requests(error or RedisConnectionError("Connection closed by this client."))
        except BaseException:
            self._transport.abort()  # connection_lost fails the requests
            raise

    async def wait_closed(self, seconds: float) -> None:
        """Wait until the socket is closed. After ``seconds``, drop unsent data and close it."""
        for _ in range(2):
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._connection_lost.wait()
                    return
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - of BufferedProtocol
        # After a read without data, for which buffer_updated is not called, the mark is unchanged.
        if self._is_reading and self._buffer[: len(_UNREAD)] != _UNREAD:
            self.close(RedisConnectionError("Connection closed, because an exception lost data."))
        self._is_reading = True
        self._buffer[: len(_UNREAD)] = _UNREAD
        return self._buffer_view

    def buffer_updated(self, nbytes: int) -> None:
        try:
            self._reader.feed(self._buffer, 0, nbytes)  # type: ignore[arg-type]
            while (reply := self._reader.gets()) is not _INCOMPLETE:
                if not isinstance(reply, hiredis.PushNotification):
                    self._handle_reply(reply)
            if self._pending or self._waiting:  # for _check_timeout
                self._progress_at = monotonic()
            self._is_reading = False
        except RedisError as error:  # the data is not a reply of Redis
            self.close(RedisConnectionError(str(error)))
        except BaseException as error:
            self._close_after(error)
            raise

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection_lost.set()
        error = RedisConnectionError(
            f"Error while reading: {exc}" if exc else "Connection closed by server."
        )
        try:
            self.close(error)
        finally:
            self._fail_requests(error)  # again, because an exception may have ended close()

    def pause_writing(self) -> None:
        self._is_write_paused = True

    def resume_writing(self) -> None:
        self._is_write_paused = False
        self._progress_at = monotonic()
        if self._unsent or self._waiting:
            self._flush()

    def _close_after(self, error: BaseException) -> None:
        """Close the connection after an exception: replies may belong to other requests now."""
        self.close(RedisConnectionError(f"Connection closed after {type(error).__name__}."))

    def _fail_requests(self, error: Exception) -> None:
        """End all requests with an error, and the timers. May be called again."""
        for timer in (self._timeout_timer, self._send_check_timer, self._closing_timer):
            if timer is not None:
                timer.cancel()
        for request in self._pending:
            request.fail(error)
        for request in self._waiting:
            request.fail(NotSent(str(error)))
        self._pending.clear()
        self._waiting.clear()
        self._unsent.clear()

    def _flush(self) -> None:
        try:
            self._is_flush_scheduled = False
            if self._is_write_paused or self.state is ConnectionState.CLOSED:
                return  # resume_writing calls this again
            with DeferredSignals():  # see signals.py
                self._write()
        except BaseException as error:
            self._close_after(error)
            raise

    def _write(self) -> None:
        """Pack and write the requests that wait, as far as the buffer of the transport allows."""
        if self._unsent:
            self._unsent = self._write_pieces(self._unsent)
        if self._is_write_paused:
            return
        requests = self._waiting
        if [each for each in requests if each.is_cancelled or each.future.cancelled()]:
            requests = self._waiting = self._without_cancelled()
        if not requests:
            return
        # Those that are not reached are not packed: their calls may still be cancelled.
        coalesced: Iterable[tuple[Request, int]] = ((requests[0], 1),)
        self._is_sequential = not self._pending and len(requests) == 1
        if not self._is_sequential:
            coalesced = self._coalescer.coalesce(self._loop, requests, self.loaded)
        pieces: list[bytes | memoryview] = []
        size = passed = 0
        for request, passed in coalesced:  # noqa: B007 - used after the loop
            packed = len(pieces)
            pieces += request.pack()
            if len(pieces) == packed:
                continue
            self._pending.append(request)
            size += sum(map(len, pieces[packed:]))
            if size > _WRITE_BYTES:
                pieces = self._write_pieces(pieces)
                size = 0
                if self._is_write_paused:
                    break
        self._waiting = requests[passed:]
        self._unfinished = max(0, self._unfinished - passed)
        self._unsent = pieces if self._is_write_paused else self._write_pieces(pieces)

    def _without_cancelled(self) -> list[Request]:
        """End the requests that wait and whose calls were cancelled; return the others."""
        kept = []
        unfinished = self._unfinished
        for at, request in enumerate(self._waiting):
            if request.is_cancelled or request.future.cancelled():
                request.fail(NotSent("The call was cancelled before it was sent."))
                self._unfinished -= at < unfinished
            else:
                kept.append(request)
        return kept

    def _write_pieces(self, pieces: list[bytes | memoryview]) -> list[bytes | memoryview]:
        """Write as many bytes as the buffer of the transport allows, and return the others."""
        size = sum(map(len, pieces))
        self._written_bytes += size
        if size > LARGE_SEND_BYTES and self._timeout and self._send_check_timer is None:
            self._schedule_send_check()
        if size <= _WRITE_BYTES:  # nearly always
            if pieces:
                self._transport.write(b"".join(pieces))
            return []
        remaining: deque[bytes | memoryview] = deque(pieces)
        while remaining and not self._is_write_paused:
            self._transport.write(_take_first_bytes(remaining, _WRITE_BYTES))
        self._written_bytes -= sum(map(len, remaining))
        return list(remaining)

    def receive(self, reply: Any) -> None:
        """Handle a reply that a transport without a socket has read."""
        self._progress_at = monotonic()
        self._handle_reply(reply)

    def _handle_reply(self, reply: Any) -> None:
        if not self._pending:
            self.close(RedisConnectionError("Redis sent a reply without a request."))
        elif (request := self._pending[0]).add_reply(reply):
            if request.unfinished:
                self._send_unfinished(request)
            self._pending.popleft()

    def _send_unfinished(self, request: Request) -> None:
        """Send what is left of a request: after what is left of earlier ones, before all others."""
        self._waiting[self._unfinished : self._unfinished] = request.unfinished
        self._unfinished += len(request.unfinished)
        if not self._is_flush_scheduled:
            self._is_flush_scheduled = True
            self._loop.call_soon(self._flush)

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
            self._progress_at = monotonic()
        if unsent:
            self._schedule_send_check()

    def _wait_for_replies(self, seconds: float) -> None:
        self._timeout_timer = self._loop.call_later(seconds, self._check_timeout)

    def _check_timeout(self) -> None:
        """
        Close the connection if nothing was received or sent for the whole timeout.

        Data that arrived while the loop was stopped is read first.
        """
        timer, self._timeout_timer = self._timeout_timer, None
        try:
            if not self._pending and not self._waiting:
                return
            oldest = (self._pending or self._waiting)[0]
            quiet_since = max(oldest.sent_at, self._progress_at)
            seconds_left = quiet_since + self._timeout - monotonic()
            late = 0.0 if timer is None else self._loop.time() - timer.when()
            if seconds_left > 0:
                self._wait_for_replies(seconds_left)
            elif late > PUNCTUAL_SECONDS and oldest is not self._found_late:
                self._found_late = oldest
                self._wait_for_replies(PUNCTUAL_SECONDS)
            else:
                self.close(RedisTimeoutError("Timeout reading from server."))
        except BaseException as error:
            self._close_after(error)
            raise


def _take_first_bytes(pieces: deque[bytes | memoryview], max_bytes: int) -> bytes:
    """Remove at most ``max_bytes`` bytes from the front of the pieces, and return them joined."""
    taken: list[bytes | memoryview] = []
    left = max_bytes
    while pieces and left > 0:
        piece = pieces.popleft()
        if len(piece) > left:
            view = memoryview(piece)
            pieces.appendleft(view[left:])
            piece = view[:left]
        taken.append(piece)
        left -= len(piece)
    return b"".join(taken)


class ReconnectingConnection:
    """The connection of one event loop, which is opened again after it failed."""

    def __init__(self, pool: ServerPool) -> None:
        self._pool = pool
        self._coalescer = Coalescer()
        self._current: MultiplexedConnection | None = None
        #: The connections that are not closed: the current one and retired ones.
        self._connections: set[MultiplexedConnection] = set()
        self._opening: asyncio.Task[None] | None = None
        self._is_closing = False

    def get_open(self, *, check: bool) -> MultiplexedConnection | None:
        """Return the open connection as ``get`` does; None if it must be opened."""
        connection = self._current
        if connection is None or connection.state is not ConnectionState.OPEN:
            return None
        if check and connection.is_broken():
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
            if opening is None or opening.done():  # an eager task may be done when it is stored
                opening = self._opening = asyncio.ensure_future(self._open())
                opening.add_done_callback(retrieve_exception)  # if all waiting calls are cancelled
            await asyncio.wait((opening,))
            if self._opening is opening:
                self._opening = None
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
        lender = self._pool.lender
        if lender is not None:
            connection = await lender.get_connection()
            transport = LentTransport(connection, lender)
            self._use(MultiplexedConnection(connection, transport, self._coalescer))
            return
        connection = self._pool.connection_class(**self._pool.connection_kwargs)
        try:
            await connection.connect()
            if not self._is_closing:  # redis-py may have swallowed the cancellation
                writer = detach_writer(connection)
                self._use(MultiplexedConnection(connection, writer, self._coalescer))
        finally:
            await connection.disconnect(nowait=True)  # does nothing without the detached socket

    def _use(self, opened: MultiplexedConnection) -> None:
        closed = ConnectionState.CLOSED
        others = (each for each in self._connections if each.state is not closed)
        self._connections = {opened, *others}
        self._current = opened
        if self._is_closing:  # a lent connection arrived too late
            opened.start_closing()

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
            connection.start_closing()

    async def close(self) -> None:
        """Close the connection when its calls have ended, and wait until it is closed."""
        opening = self._opening
        self.start_closing()
        while opening is not None and not opening.done():
            opening.cancel()  # again, because redis-py swallows some cancellations
            await asyncio.wait((opening,), timeout=_CANCEL_INTERVAL_SECONDS)
        for connection in self._connections:
            await connection.wait_closed(2 * INTERRUPTION_GRACE_SECONDS)


def make_data_check(socket: Any) -> Callable[[], object]:
    """
    Return a function whose result is true if a socket has data to read or the peer has closed it.

    For None it always returns False.
    """
    if socket is None:
        return lambda: False
    if not hasattr(select, "poll"):
        return lambda: bool(select.select([socket], [], [], 0)[0])
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return partial(poll.poll, 0)


def retrieve_exception(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception of a task, so that the event loop does not log it as unretrieved."""
    if not task.cancelled():
        task.exception()
