"""
One connection for all calls of an event loop.

Commands of calls that run at the same time go out together, and their replies come back in order:
a call that waits for its reply holds up no other, and a cancelled one leaves the connection as it
was. redis-py makes the connection (TLS, user, database); its reading and writing a command at a
time, which takes longer than Redis does, is not used.
"""

from __future__ import annotations

import asyncio
import select
from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Any

import hiredis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from rsmq.errors import ClientClosed
from rsmq.transport.redis_py import make_reader, take_writer
from rsmq.transport.retry import INTERRUPTED_SECONDS
from rsmq.transport.signals import Held
from rsmq.transport.socket import LARGE_SEND, LOOKS_A_TIMEOUT, pack, unsent_bytes

_NOTHING = object()

#: Bytes that are handed to the transport at once: a transport that is full says so after each.
_WRITE_BYTES = 65_536


class NotSent(RedisConnectionError):
    """The connection was closed before anything of the command was sent."""


class State(Enum):
    """What a connection may be used for."""

    OPEN = "open"  # for all calls
    RETIRED = "retired"  # for the calls that use it already; it closes when they have ended
    CLOSED = "closed"  # for nothing


class Request:
    """
    Commands that were sent, and the replies to them.

    Attributes:
        began: the loop's time when they were sent.
        replies: those that have come, errors as they are.
    """

    __slots__ = ("_done", "_future", "_loop", "_number", "began", "replies")

    def __init__(self, loop: asyncio.AbstractEventLoop, number: int) -> None:
        self._loop = loop
        self._number = number
        self._future = loop.create_future()
        self._done = False
        self.began = loop.time()
        self.replies: list[Any] = []

    async def wait(self) -> list[Any]:
        """The replies; can be taken up again after a cancellation."""
        if self._future.cancelled():
            self._future = self._loop.create_future()
            if self._done:
                self._future.set_result(self.replies)
        await self._future
        return self.replies

    def add(self, reply: Any) -> bool:
        """Take in the next reply; True if it was the last."""
        self.replies.append(reply)
        self._done = len(self.replies) == self._number
        if self._done and not self._future.done():
            self._future.set_result(None)
        return self._done

    def fail(self, error: Exception) -> None:
        """No more replies will come."""
        self.replies = [error] * self._number
        self._done = True
        if not self._future.done():
            self._future.set_result(None)


class Pipeline(asyncio.Protocol):
    """
    A connection of one event loop.

    Attributes:
        state: what it may be used for.
        calls: the number of calls that use the connection. After a call ends, the caller runs
            ``close_if_unused`` unless the state is OPEN.
    """

    def __init__(self, connection: Any) -> None:
        """Take over a connection that redis-py has opened in the running loop."""
        self.state = State.OPEN
        self._loop = asyncio.get_running_loop()
        self._replies = make_reader(connection, _NOTHING)
        self._timeout = connection.socket_timeout
        self.calls = 0
        self._waiting: deque[Request] = deque()
        self._unsent: list[bytes | memoryview] = []
        self._flushing = False  # or about to
        self._full = False  # the transport takes nothing more
        self._progress_at = 0.0
        self._written = 0  # bytes, all in all
        self._taken = 0  # of these, what the peer has taken for sure
        self._look: asyncio.TimerHandle | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._lost = asyncio.Event()
        # Kept, for it closes the socket when nobody keeps it; not by redis-py, but here.
        self._writer = take_writer(connection)
        self._transport = self._writer.transport
        self._transport.set_protocol(self)
        self._transport.set_write_buffer_limits(high=_WRITE_BYTES)

    @property
    def idle(self) -> bool:
        """Whether every request has been answered."""
        return not self._waiting

    @property
    def socket(self) -> Any:
        """Where the connection's bytes come from."""
        return self._transport.get_extra_info("socket")

    def send(self, commands: Sequence[tuple[bytes, ...]]) -> Request:
        """
        Send commands, together with all others of this turn of the loop.

        Raises:
            NotSent: the connection is closed.
        """
        if self.state is State.CLOSED:
            raise NotSent("Connection is closed.")
        request = Request(self._loop, len(commands))
        with Held():  # see signals.py
            self._unsent += [piece for command in commands for piece in pack(command)]
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)
        self._waiting.append(request)
        if self._timeout and self._watch is None:
            self._watch = self._loop.call_later(self._timeout, self._check_progress)
        return request

    def retire(self) -> None:
        """Take no new calls; close when those that use the connection have ended."""
        if self.state is State.OPEN:
            self.state = State.RETIRED
        self.close_if_unused()

    def close_if_unused(self) -> None:
        """Close a connection that was retired, if no call uses it."""
        if self.state is State.RETIRED and not self.calls:
            self.close()

    def close(self, error: Exception | None = None) -> None:
        """
        Close the connection now; calls that wait for a reply end with an error.

        Args:
            error: theirs; after one, what is not sent yet is dropped.
        """
        if self.state is State.CLOSED:
            return
        self.state = State.CLOSED
        for timer in (self._watch, self._look):
            if timer is not None:
                timer.cancel()
        if error is None and not self._unsent:
            self._writer.close()
        else:  # closing would first wait until all is sent
            self._transport.abort()
        self._unsent.clear()
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            request.fail(error or RedisConnectionError("Connection closed by this client."))

    async def wait_closed(self, seconds: float) -> None:
        """Wait until the socket is closed, for some seconds at most; then it is cut off."""
        try:
            async with asyncio.timeout(seconds):
                await self._lost.wait()
        except TimeoutError:
            self._transport.abort()
            await self._lost.wait()

    def data_received(self, data: bytes) -> None:
        self._progress_at = self._loop.time()
        try:
            self._replies.feed(data)
            while (reply := self._replies.gets()) is not _NOTHING:
                if not isinstance(reply, hiredis.PushNotification):
                    self._answer(reply)
        except RedisError as error:  # what came is not a reply of Redis
            self.close(RedisConnectionError(str(error)))

    def connection_lost(self, exc: Exception | None) -> None:
        text = f"Error while reading: {exc}" if exc else "Connection closed by server."
        self._lost.set()
        self.close(RedisConnectionError(text))

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._progress_at = self._loop.time()
        if self._unsent:
            self._flush()

    def _flush(self) -> None:
        self._flushing = False
        if self._full or self.state is State.CLOSED:
            return  # if it is full, resume_writing continues
        unsent, self._unsent = self._unsent, []
        size = sum(map(len, unsent))
        self._written += size
        if size > LARGE_SEND and self._timeout and self._look is None:
            self._look_soon()
        if size <= _WRITE_BYTES:  # nearly always
            self._transport.write(b"".join(unsent))
            return
        rest: deque[bytes | memoryview] = deque(unsent)
        while rest and not self._full:
            self._transport.write(_first_bytes(rest, _WRITE_BYTES))
        self._unsent = list(rest)
        self._written -= sum(map(len, self._unsent))

    def _answer(self, reply: Any) -> None:
        if self._waiting and self._waiting[0].add(reply):
            self._waiting.popleft()

    def _look_soon(self) -> None:
        self._look = self._loop.call_later(self._timeout / LOOKS_A_TIMEOUT, self._look_at_sending)

    def _look_at_sending(self) -> None:
        """Note when the peer takes something, until it has all that was written."""
        self._look = None
        unsent = self._transport.get_write_buffer_size() + unsent_bytes(self.socket)
        if self._written - unsent > self._taken:
            self._taken = self._written - unsent
            self._progress_at = self._loop.time()
        if unsent:
            self._look_soon()

    def _check_progress(self) -> None:
        """Give the connection up if for the whole timeout nothing came, and nothing was sent."""
        self._watch = None
        if not self._waiting:
            return
        left = max(self._waiting[0].began, self._progress_at) + self._timeout - self._loop.time()
        if left <= 0:
            self.close(RedisTimeoutError("Timeout reading from server."))
            return
        self._watch = self._loop.call_later(left, self._check_progress)


def _first_bytes(pieces: deque[bytes | memoryview], most: int) -> bytes:
    """Remove so many bytes from the front of pieces, and return them as one."""
    taken: list[bytes | memoryview] = []
    left = most
    while pieces and left > 0:
        piece = memoryview(pieces.popleft())
        taken.append(piece[:left])
        if len(piece) > left:
            pieces.appendleft(piece[left:])
        left -= len(taken[-1])
    return b"".join(taken)


class Line:
    """The connection of one event loop, made again when it has failed."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._pipeline: Pipeline | None = None
        #: Those that are not closed: the one above, and those that were retired.
        self._pipelines: set[Pipeline] = set()
        self._opening: asyncio.Task[None] | None = None
        self._ended = False

    async def get(self, *, check: bool) -> Pipeline:
        """
        Return the connection; if asked, one that was idle is looked at before.

        Raises:
            ClientClosed: it was closed for good.
        """
        while not self._ended:
            pipeline = self._pipeline
            if pipeline is not None and pipeline.state is State.OPEN:
                if not (check and pipeline.idle and is_readable(pipeline.socket)):
                    return pipeline
                pipeline.close()
            opening = self._opening
            if opening is None:
                opening = self._opening = asyncio.ensure_future(self._open())
                opening.add_done_callback(look_at_error)  # all calls that wait may be cancelled
            await asyncio.wait((opening,))
            if opening.cancelled():
                if not self._ended:  # as by a program that cancels all tasks
                    raise RedisConnectionError("Connecting was cancelled.")
            elif (error := opening.exception()) is not None:
                if not isinstance(error, (RedisError, OSError)):
                    raise error
                # Each call that waits for it gets an error of its own.
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
            if self._ended:  # redis-py may swallow a cancellation that comes as it connects
                await connection.disconnect(nowait=True)
                return
            self._pipelines = {each for each in self._pipelines if each.state is not State.CLOSED}
            self._pipeline = Pipeline(connection)
            self._pipelines.add(self._pipeline)
        finally:
            self._opening = None

    def end(self) -> None:
        """Close the connection for good: when its calls have ended, or soon."""
        self._ended = True
        if self._opening is not None:
            self._opening.cancel()
        for pipeline in self._pipelines:
            pipeline.retire()
            asyncio.get_running_loop().call_later(
                INTERRUPTED_SECONDS, pipeline.close, ClientClosed()
            )

    async def close(self) -> None:
        """End it, and wait until no connection is left."""
        opening = self._opening
        self.end()
        if opening is not None:
            await asyncio.wait((opening,))
        for pipeline in self._pipelines:
            await pipeline.wait_closed(2 * INTERRUPTED_SECONDS)


def is_readable(socket: Any) -> bool:
    """Return whether a socket, if there is one, has something to read, its end included."""
    if socket is None:
        return False
    if not hasattr(select, "poll"):
        return bool(select.select([socket], [], [], 0)[0])
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(0))


def look_at_error(task: asyncio.Task[Any]) -> None:
    """Look at what a task raised, so that the event loop does not report it as unseen."""
    if not task.cancelled():
        task.exception()
