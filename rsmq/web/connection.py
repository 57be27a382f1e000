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

The reset only reaches a connection whose two halves are not both closed. So after an answer with
messages, the server lingers: it leaves one half open, for a second at most if all has arrived.

- If the client has ended its stream, it may have closed its half only. The server leaves its own
  half open.
- If the server ends the connection, it closes its half, and reads until the client's end.
"""

from __future__ import annotations

import array
import asyncio
import fcntl
import select
import socket
import sys
from collections.abc import Callable
from typing import Any

from rsmq.web.delivery import CONNECTION
from rsmq.web.limited_connection import LimitedConnection, most_connections

#: How long a connection is left half open, so that a reset is seen.
LINGER_SECONDS = 1.0
#: Seconds between two looks meanwhile.
_LOOK_SECONDS = 0.05

#: The ioctl of Linux that returns the bytes that are not acknowledged.
_SIOCOUTQ = 0x5411

#: The events of a connection whose peer has ended its stream; 0 on systems without them.
_CLOSED = getattr(select, "POLLRDHUP", 0)


class _JoiningTransport:
    """A transport that may join what is written: each write to a socket takes a system call."""

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        """
        Make it.

        Args:
            close: closes the transport when nothing is held.
        """
        self._transport = transport
        self._close = close
        self._is_ended = False
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
        self._is_ended = True
        self._close()

    def is_closing(self) -> bool:
        """Return whether nothing can be written any more."""
        return self._is_ended or self._transport.is_closing()


class WatchedConnection(LimitedConnection):
    """
    A connection, which is in the scope of its requests as ``rsmq.connection``.

    Attributes:
        has_left: whether the client has ended its stream, or the connection is lost. Data
            written after that goes nowhere.
    """

    app: Any
    has_left: bool = False
    #: The time of the event loop until which it lingers; None if it does not.
    _lingers_until: float | None = None
    _look: asyncio.TimerHandle | None = None
    _is_stopping = False
    _was_reset = False

    def connection_made(self, transport: Any) -> None:
        """Put this connection into the scope of its requests."""
        #: Is called once if the client has not read the answers since its last request.
        self._unread: list[Callable[[], None]] = []
        self._transport = transport
        self._joining: Any = _JoiningTransport(transport, self._close)
        super().connection_made(self._joining)
        app = self.app

        async def call(scope: Any, receive: Any, send: Any) -> None:
            scope[CONNECTION] = self
            await app(scope, receive, send)

        self.app = call

    def __enter__(self) -> None:
        """Begin an answer whose parts are written together at the exit."""
        self._joining.hold()

    def __exit__(self, *_: object) -> None:
        self._joining.release()

    def when_unread(self, call: Callable[[], None]) -> None:
        """Call this once if the client has not read the answer that is sent next."""
        self._unread.append(call)

    def on_message_begin(self) -> None:
        """Begin a request. A client that sends it after an answer has read the answer."""
        if self.cycle is None or self.cycle.response_complete:
            self._unread.clear()
        super().on_message_begin()

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived, unless the connection ends."""
        if self._lingers_until is None:
            super().data_received(data)

    def eof_received(self) -> bool | None:  # type: ignore[override] # as of asyncio
        """Look whether the client has closed before bytes of the answer have arrived."""
        self.has_left = True
        if self._may_linger():
            # A client that leaves before the last of several answers has waited for none.
            if self.cycle.response_complete and not self._has_unread():
                self._linger()
                return True
            self._report()
            self._transport.abort()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Report an answer if the connection was reset."""
        self.has_left = True
        self._stop_lingering()
        if isinstance(exc, OSError):
            self._report()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """End with the answer to the request, and linger for no client."""
        self._is_stopping = True
        super().shutdown()

    def is_closed_by_peer(self) -> bool | None:
        """Return whether the client has closed; None if this system can't tell at once."""
        if self.has_left or self.transport.is_closing():
            return True
        if not _CLOSED:
            return None
        poller = select.poll()
        poller.register(self.transport.get_extra_info("socket").fileno(), _CLOSED)
        return bool(poller.poll(0))

    def _close(self) -> None:
        """End the connection for the server."""
        if self._may_linger() and not self.has_left and not self._transport.is_closing():
            self._transport.write_eof()
            self._linger()
        else:
            self._close_now()

    def _may_linger(self) -> bool:
        """Return whether a reset would say something, and there is room for connections."""
        return (
            bool(self._unread)
            and self.scheme == "http"
            and self._lingers_until is None
            and not self._is_stopping
            and len(self.connections) <= most_connections() // 2
        )

    def _linger(self) -> None:
        self._lingers_until = self.loop.time() + LINGER_SECONDS
        self._look = self.loop.call_later(0, self._look_again)

    def _look_again(self) -> None:
        """End a connection that was reset, or whose bytes have arrived long enough ago."""
        assert self._lingers_until is not None  # noqa: S101 - it lingers
        is_over = self.loop.time() >= self._lingers_until and not self._count_unacknowledged()
        if self._is_reset() or is_over:
            self._close_now()
        else:
            self._look = self.loop.call_later(_LOOK_SECONDS, self._look_again)

    def _stop_lingering(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def _close_now(self) -> None:
        if self._look is not None:
            self._stop_lingering()
            if self._is_reset():
                self._report()
        self._transport.close()

    def _is_reset(self) -> bool:
        """Return whether the client has reset the connection. The system says it only once."""
        accepted = self.transport.get_extra_info("socket")
        if accepted.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._was_reset = True
        return self._was_reset

    def _count_unacknowledged(self) -> int:
        """Return how many bytes that were sent have not arrived, as far as the system knows."""
        if not sys.platform.startswith("linux"):
            return 0
        number = array.array("i", [0])
        fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), _SIOCOUTQ, number)
        return number[0]

    def _has_unread(self) -> bool:
        return self._is_reset() or self._count_unacknowledged() > 0

    def _report(self) -> None:
        unread, self._unread = self._unread, []
        for call in unread:
            call()
