"""
A connection of aiohttp that keeps the beginning of each answer, and takes nothing else for one.

The status line decides on a message. aiohttp drops it if the rest of the answer is not HTTP, for
example because the body is longer than its Content-Length. And if bytes come while a connection
waits in the pool, aiohttp takes them for the answer to the next request: a message would be deleted
because of an answer to another one. This is the only module that uses a private attribute of
aiohttp; a test names it.
"""

from __future__ import annotations

import asyncio
import re
import select
from collections.abc import Callable
from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

from rsmq.webhooks.answers import STORED_ANSWER_BYTES, Answer
from rsmq.webhooks.exchange import Exchange, current_exchange

#: The part of an answer that is kept.
_MAX_HEAD_BYTES = 16_384
#: A connection that was idle for so long may have bytes that the event loop has not read, if the
#: loop was blocked. The check is not made at each use, because other threads of the worker could
#: run during each one.
_CHECK_AFTER_IDLE_SECONDS = 0.1
#: The status line of an answer, and interim answers such as 100 Continue before it.
_STATUS_LINE = re.compile(
    rb"(?:HTTP/1\.[01] 1[^\r\n]*\r?\n(?:[^\r\n]+\r?\n)*\r?\n)*"
    rb"HTTP/1\.[01] ([2-9][0-9]{2})(?: ([^\r\n]*))?\r?\n"
)
_RETRY_AFTER = re.compile(rb"^retry-after:[ \t]*([^\r\n]*)", re.MULTILINE | re.IGNORECASE)


class ObservedConnection(ResponseHandler):
    """
    A connection that keeps the beginning of the answer to its last request.

    Attributes:
        exchange: the exchange of its last request; None if it has ended.
        idle_since: the time of the event loop at which it ended.
        seen: the first bytes of the answer.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, is_tls: bool = False) -> None:
        """
        Make it.

        Args:
            is_tls: whether answers come through TLS. Without it comes the answer of a proxy, which
                is not an answer to a message.
        """
        super().__init__(loop=loop)
        self._is_tls = is_tls
        self._is_of_proxy = False
        self.exchange: Exchange | None = None
        self.idle_since = 0.0
        self.seen = b""
        self._socket_poll = select.poll()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._socket_poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def is_connected(self) -> bool:
        """
        Return whether a request may be sent: it is open, and nothing has come without a request.

        The pool asks this before it uses the connection again.
        """
        if not super().is_connected() or self.should_close:
            return False
        is_long_idle = self._loop.time() - self.idle_since > _CHECK_AFTER_IDLE_SECONDS
        return not (is_long_idle and self._socket_poll.poll(0))

    def set_response_params(self, **params: Any) -> None:
        transport = self.transport
        self._is_of_proxy = self._is_tls and (
            transport is None or transport.get_extra_info("sslcontext") is None
        )
        if self._is_of_proxy:
            super().set_response_params(**params)
            return
        self.seen = b""
        self.exchange = current = current_exchange.get()
        if current is not None:
            current.connection = self
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        if self._is_of_proxy:
            super().data_received(data)
            return
        if self.exchange is None:
            self.close()
            return
        if not self.seen:
            self.seen = data[:_MAX_HEAD_BYTES]
        elif len(self.seen) < _MAX_HEAD_BYTES:
            self.seen += data[: _MAX_HEAD_BYTES - len(self.seen)]
        super().data_received(data)

    def answer(self) -> Answer | None:
        """Return the answer as far as it has come; None if there is no whole status line."""
        return parse_answer(self.seen)


def observe_connections(connector: aiohttp.BaseConnector, *, is_tls: bool = False) -> None:
    """
    Let a connector make connections of this kind.

    Args:
        is_tls: whether the answers of the target come through TLS.
    """
    loop = asyncio.get_running_loop()
    kind: Callable[..., ResponseHandler] = ObservedConnection
    connector._factory = partial(kind, loop=loop, is_tls=is_tls)  # noqa: SLF001 - there is no other way


def parse_answer(seen: bytes) -> Answer | None:
    """Return the answer that begins with these bytes; None if there is no whole status line."""
    found = _STATUS_LINE.match(seen)
    if found is None:
        return None
    text = (found[2] or b"").decode(errors="replace").strip()
    # From the end of the status line on: there may be no header.
    head, _, body = seen[found.end() - 2 :].partition(b"\r\n\r\n")
    retry_after = _RETRY_AFTER.search(head)
    return Answer(
        int(found[1]),
        text,
        body[:STORED_ANSWER_BYTES],
        None if retry_after is None else retry_after[1].decode(errors="replace"),
    )
