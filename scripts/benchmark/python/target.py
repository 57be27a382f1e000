"""A small HTTP server that answers each request with 204; it prints its port."""

from __future__ import annotations

import asyncio

ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"


class Connection(asyncio.Protocol):
    """A connection; requests are answered when their bodies are complete."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            at = self._buffer.index(b"Content-Length: ") + 16
            length = int(self._buffer[at : self._buffer.index(b"\r", at)])
            if len(self._buffer) < end + 4 + length:
                return
            self._buffer = self._buffer[end + 4 + length :]
            self._transport.write(ANSWER)


async def main() -> None:
    """Serve until the process is ended."""
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
