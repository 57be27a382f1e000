"""
The transport of a connection that only the pool of a client of redis-py can make.

Such a connection may have no socket, as those of fakeredis, so redis-py reads and writes it.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError, ResponseError

from rsmq.transport.redis_py import socket_of_asyncio


class _Receiver(Protocol):
    """A MultiplexedConnection, as far as its transport knows it."""

    @property
    def has_pending(self) -> bool: ...

    def receive(self, reply: Any) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def close(self, error: Exception | None) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...


class LentTransport:
    """A transport, and its stream writer, that sends and reads with the methods of redis-py."""

    def __init__(self, connection: Any, lender: Any) -> None:
        self.transport = self
        self._connection = connection
        self._lender = lender
        self._unsent: list[bytes] = []
        self._exchange: asyncio.Task[None] | None = None
        self._return: asyncio.Task[None] | None = None
        self._protocol: _Receiver

    def set_protocol(self, protocol: _Receiver) -> None:
        self._protocol = protocol

    def set_write_buffer_limits(self, high: int) -> None:
        """Do nothing: after each write there is a pause, until it was sent."""

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self._unsent))

    def get_extra_info(self, name: str) -> Any:  # noqa: ARG002 - only the socket is asked for
        return socket_of_asyncio(self._connection)

    def write(self, data: bytes) -> None:
        self._unsent.append(data)
        self._protocol.pause_writing()
        if self._exchange is None or self._exchange.done():
            self._exchange = asyncio.ensure_future(self._send_and_read())

    def close(self) -> None:
        """Close the connection, and return it to its pool."""
        if self._return is None:
            self._return = asyncio.ensure_future(self._give_back())

    abort = close

    async def _send_and_read(self) -> None:
        try:
            while True:
                self._protocol.resume_writing()  # calls that were cancelled meanwhile are not sent
                if self._unsent:
                    data, self._unsent = self._unsent, []
                    await self._connection.send_packed_command(data, check_health=False)
                    continue
                if not self._protocol.has_pending:
                    return
                self._protocol.pause_writing()
                try:
                    reply = await self._connection.read_response(disable_decoding=True)
                except ResponseError as error:
                    reply = error
                self._protocol.receive(reply)
        except (RedisError, OSError) as error:
            self._protocol.close(error)
        except BaseException:
            self._protocol.close(RedisConnectionError("The call was interrupted."))
            raise

    async def _give_back(self) -> None:
        if self._exchange is not None:
            self._exchange.cancel()
        try:
            await self._connection.disconnect(nowait=True)
            await self._lender.release(self._connection)
        finally:
            self._protocol.connection_lost(None)
