"""
Connections of uvicorn that report a client that has closed before it has read its answer.

TCP has no sign for "the client has read the answer", but it has two for the opposite:

- The client's system answers with a reset if its program closes while bytes are unread, and if
  bytes arrive after it has closed.
- The end of the client's stream acknowledges all bytes that have arrived before the client closed.
  If bytes are not acknowledged then, they came too late.

So the answer was handed over unless one of the two is seen, before the next request of the same
connection. A client that has read it and then resets the connection on purpose looks the same as
one that has not: its messages are received once more.
"""

from __future__ import annotations

import array
import fcntl
import select
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from rsmq.web.delivery import CONNECTION

if TYPE_CHECKING:
    import asyncio

#: The ioctl of Linux that returns the bytes that are not acknowledged.
_SIOCOUTQ = 0x5411

#: The events of a connection whose peer has ended its stream; 0 on systems without them.
_CLOSED = getattr(select, "POLLRDHUP", 0)


class _JoiningTransport:
    """A transport that may join what is written: each write to a socket takes a system call."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._held: list[bytes] = []
        self.write: Callable[[bytes], None] = transport.write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def hold(self) -> None:
        """Keep what is written until the release."""
        self.write = self._held.append

    def release(self) -> None:
        """Write what was kept, at once."""
        self.write = self._transport.write
        if self._held:
            self._transport.write(b"".join(self._held))
            self._held.clear()

    def close(self) -> None:
        """Close the transport after what was written."""
        self.release()
        self._transport.close()


class WatchedConnection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """
    A connection, which is in the scope of its requests as ``rsmq.connection``.

    Attributes:
        on_unread: called once if the client has not read the last answer; the handler of the
            request sets it after it has sent the answer.
        has_left: whether the client has ended its stream, or the connection is lost. What is
            written after that goes nowhere.
    """

    app: Any
    on_unread: Callable[[], None] | None = None
    has_left: bool = False

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Put this connection into the scope of its requests."""
        self._joining: Any = _JoiningTransport(transport)
        super().connection_made(self._joining)
        app = self.app

        async def call(scope: Any, receive: Any, send: Any) -> None:
            self.on_unread = None  # who sends a further request has read the answer before
            scope[CONNECTION] = self
            await app(scope, receive, send)

        self.app = call

    def __enter__(self) -> None:
        """Begin an answer whose parts are written together at the exit."""
        self._joining.hold()

    def __exit__(self, *_: object) -> None:
        self._joining.release()

    def eof_received(self) -> None:
        """Look whether the client has closed before bytes of the answer have arrived."""
        self.has_left = True
        if self.on_unread is not None and self.scheme == "http" and self._has_unread():
            self._report()
        super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report an answer if the connection was reset."""
        self.has_left = True
        if isinstance(exc, OSError):
            self._report()
        super().connection_lost(exc)

    def is_closed_by_peer(self) -> bool | None:
        """Return whether the client has closed; None if this system can't tell at once."""
        if self.has_left or self.transport.is_closing():
            return True
        if not _CLOSED:
            return None
        poller = select.poll()
        poller.register(self.transport.get_extra_info("socket").fileno(), _CLOSED)
        return bool(poller.poll(0))

    def _has_unread(self) -> bool:
        connection = self.transport.get_extra_info("socket")
        if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            return True
        if not sys.platform.startswith("linux"):
            return False
        number = array.array("i", [0])
        fcntl.ioctl(connection.fileno(), _SIOCOUTQ, number)
        return number[0] > 0

    def _report(self) -> None:
        on_unread, self.on_unread = self.on_unread, None
        if on_unread is not None:
            on_unread()
