"""A TCP proxy that delays all data, as a long line does: what follows is not held up."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import Any, Self


class DelayProxy:
    """
    A proxy in front of a server on loopback, in a thread of its own.

    Attributes:
        port: the port for clients.
        ends: the connections to clients and to the server.
    """

    def __init__(self, target: int, round_trip_seconds: float) -> None:
        """
        Prepare it; the ``with`` block runs it.

        Args:
            target: the port of the server.
            round_trip_seconds: the delay; each direction has half of it.
        """
        self._target = target
        self._delay = round_trip_seconds / 2
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.port = 0
        self.ends: set[_End] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        self.port = server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> asyncio.Server:
        self._server = await self._loop.create_server(self._accept, "127.0.0.1", 0)
        return self._server

    def _accept(self) -> _End:
        client, server = _End(self, self._delay), _End(self, self._delay)
        client.other, server.other = server, client
        connecting = self._loop.create_connection(lambda: server, "127.0.0.1", self._target)
        client.connecting = self._loop.create_task(connecting)
        return client

    async def _close(self) -> None:
        self._server.close()
        for end in self.ends:
            end.close()
        await asyncio.sleep(0)


class _End(asyncio.Protocol):
    """One of the two connections of a client: to the client, or to the server."""

    other: _End
    connecting: asyncio.Task[Any] | None = None  # so that it is not collected

    def __init__(self, proxy: DelayProxy, delay: float) -> None:
        self._proxy = proxy
        self._delay = delay
        self._transport: Any = None
        self._due: deque[bytes] = deque()  # of equal times, timers have no order

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._proxy.ends.add(self)

    def data_received(self, data: bytes) -> None:
        self.other._due.append(data)  # noqa: SLF001 - of the same class
        asyncio.get_running_loop().call_later(self._delay, self.other._write)  # noqa: SLF001

    def _write(self) -> None:
        if self._transport is None:  # the server, on loopback, has not answered within the delay
            self.other.close()
        else:
            self._transport.write(self._due.popleft())

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        asyncio.get_running_loop().call_later(self._delay, self.other.close)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
