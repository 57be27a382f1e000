"""
Connections of uvicorn that end requests that do not arrive, and refuse heads that are too long.
"""

from __future__ import annotations

import resource
import sys
from enum import Enum
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rsmq.web.request_limits import HEAD_SECONDS, MAX_HEAD_BYTES, MAX_HEADERS, seconds_for_body

if TYPE_CHECKING:
    import asyncio

#: Files that are left for all but connections of clients, such as those to Redis.
_OTHER_FILES = 100


def most_connections() -> int:
    """Return how many connections the limit of open files allows."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else max(soft - _OTHER_FILES, soft // 2)


class _AnswerPart(Enum):
    """The part of a request that has to arrive."""

    HEAD = "head"
    BODY = "body"


class _HeadTooLong(Exception):
    """Ends the parser at a head that is too long."""


class LimitedConnection(HttpToolsProtocol):
    """A connection whose requests have to arrive in time, with a head that is not too long."""

    #: None between a request and the head of the next one.
    _part: _AnswerPart | None = None
    #: The size of the part so far, in bytes, and the number of its headers.
    _size = 0
    _headers = 0
    #: Bytes after those that have begun the part.
    _arrived: int | None = None
    _begun = 0.0
    #: Is set for a part that has not arrived together with its begin.
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Refuse one too many; else wait for a head."""
        super().connection_made(transport)
        if len(self.connections) > most_connections():
            self._refuse("503 Service Unavailable", "retry-after: 1\r\n")
        else:
            self._begin(_AnswerPart.HEAD)
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing."""
        self._begin(None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what has arrived."""
        super().data_received(data)
        if self._part is not None:
            # The parser reports a header when all of it has arrived. The bytes that begin the head
            # may also have ended the request before.
            self._arrived = 0 if self._arrived is None else self._arrived + len(data)
            if self._part is _AnswerPart.HEAD and self._arrived > MAX_HEAD_BYTES:
                self._refuse_head()
            else:
                self._watch()

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._begin(_AnswerPart.HEAD)

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        super().on_url(url)
        self._add_to_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._headers += 1
        self._add_to_head(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Call the application."""
        self._begin(_AnswerPart.BODY)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._size += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for nothing: uvicorn waits for the next request."""
        self._begin(None)
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse a head, by its own status if it is too long."""
        if self._is_head_too_long():
            self._refuse_head()
        else:
            super().send_400_response(msg)

    def shutdown(self) -> None:
        """End with the answer to the request; refuse one whose body has not arrived."""
        if self._part is _AnswerPart.BODY and not self.cycle.response_started:
            self._refuse("503 Service Unavailable", "retry-after: 1\r\n")
        else:
            super().shutdown()

    def _is_head_too_long(self) -> bool:
        return self._part is _AnswerPart.HEAD and (
            self._size > MAX_HEAD_BYTES or self._headers > MAX_HEADERS
        )

    def _add_to_head(self, size: int) -> None:
        self._size += size
        if self._is_head_too_long():
            raise _HeadTooLong

    def _begin(self, part: _AnswerPart | None) -> None:
        self._part, self._arrived = part, None
        self._size = self._headers = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watch(self) -> None:
        if self._timer is None and not self.transport.is_closing():
            self._begun = self.loop.time()
            seconds = HEAD_SECONDS if self._part is _AnswerPart.HEAD else seconds_for_body(0)
            self._timer = self.loop.call_later(seconds, self._end)

    def _end(self) -> None:
        """Close, if a body has not arrived fast enough."""
        if self._part is _AnswerPart.BODY:
            left = self._begun + seconds_for_body(self._size) - self.loop.time()
            # What this process does not read may have arrived.
            if left > 0 or self.flow.read_paused:
                self._timer = self.loop.call_later(max(left, 1.0), self._end)
                return
            if self.cycle.response_started:
                self.transport.close()
                return
        self._refuse("408 Request Timeout")

    def _refuse_head(self) -> None:
        self._refuse("431 Request Header Fields Too Large")

    def _refuse(self, status: str, headers: str = "") -> None:
        self._begin(None)
        head = f"HTTP/1.1 {status}\r\n{headers}content-length: 0\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode())
        self.transport.close()
