"""
One connection for all calls of an event loop.

Commands of calls that run at the same time go out together, and their replies come back in order:
a call that waits for its reply holds up no other, and a cancelled one leaves the connection as it
was. redis-py makes the connection (TLS, user, database); its reading and writing a command at a
time, which takes longer than Redis does, is not used.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any

import hiredis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import InvalidResponse, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from rsmq.interrupts import Held
from rsmq.own_connection import pack

_NOTHING = object()


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
        usable: False once it was closed or has failed; it stays so.
    """

    def __init__(self, connection: Any) -> None:
        """Take over a connection that redis-py has opened in the running loop."""
        self.usable = True
        self._loop = asyncio.get_running_loop()
        self._replies = hiredis.Reader(
            protocolError=InvalidResponse,
            replyError=connection._parser.parse_error,  # noqa: SLF001 - there is no public name
            notEnoughData=_NOTHING,
        )
        self._timeout = connection.socket_timeout
        self._waiting: deque[Request] = deque()
        self._unsent: list[bytes] = []
        self._watch: asyncio.TimerHandle | None = None
        self._writer = connection._writer  # noqa: SLF001 - kept, for it closes when forgotten
        self._transport = self._writer.transport
        self._transport.set_protocol(self)
        connection._reader = connection._writer = None  # noqa: SLF001 - it is closed here, not there

    @property
    def idle(self) -> bool:
        """Whether every request has been answered."""
        return not self._waiting

    @property
    def socket(self) -> Any:
        """Where the connection's bytes come from."""
        return self._transport.get_extra_info("socket")

    def send(self, commands: Sequence[tuple[bytes, ...]]) -> Request:
        """Send commands, together with all others of this turn of the loop."""
        request = Request(self._loop, len(commands))
        with Held():  # see interrupts.py
            packed = [piece for command in commands for piece in pack(command)]
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent += packed
        self._waiting.append(request)
        if self._timeout and self._watch is None:
            self._watch = self._loop.call_later(self._timeout, self._look_at_the_clock)
        return request

    def close(self, error: Exception | None = None) -> None:
        """Close the connection; who still waits for a reply gets an error."""
        self.usable = False
        if self._watch is not None:
            self._watch.cancel()
        self._writer.close()
        waiting, self._waiting = self._waiting, deque()
        for request in waiting:
            request.fail(error or RedisConnectionError("Connection closed by this client."))

    def data_received(self, data: bytes) -> None:
        try:
            self._replies.feed(data)
            while (reply := self._replies.gets()) is not _NOTHING:
                if not isinstance(reply, hiredis.PushNotification):
                    self._answer(reply)
        except RedisError as error:  # what came is no reply of Redis
            self.close(RedisConnectionError(str(error)))

    def connection_lost(self, exc: Exception | None) -> None:
        text = f"Error while reading: {exc}" if exc else "Connection closed by server."
        self.close(RedisConnectionError(text))

    def _flush(self) -> None:
        if self.usable:
            self._transport.writelines(self._unsent)
        self._unsent.clear()

    def _answer(self, reply: Any) -> None:
        if self._waiting and self._waiting[0].add(reply):
            self._waiting.popleft()

    def _look_at_the_clock(self) -> None:
        self._watch = None
        if not self._waiting:
            return
        left = self._waiting[0].began + self._timeout - self._loop.time()
        if left <= 0:
            self.close(RedisTimeoutError("Timeout reading from server."))
        else:
            self._watch = self._loop.call_later(left, self._look_at_the_clock)
