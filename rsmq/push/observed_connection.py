"""
A connection of aiohttp that remembers the beginning of each answer.

The status line decides on a message. aiohttp drops it if the rest of the answer is not HTTP, for
example because the body is longer than its Content-Length. This is the only module that uses a
private attribute of aiohttp; a test names it.
"""

from __future__ import annotations

import asyncio
import re
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

from rsmq.push.answers import STORED_ANSWER_BYTES, Answer

#: The part of an answer that is remembered.
_MAX_HEAD_BYTES = 16_384
#: The status line of an answer, and interim answers such as 100 Continue before it.
_STATUS_LINE = re.compile(
    rb"(?:HTTP/1\.[01] 1[^\r\n]*\r?\n(?:[^\r\n]+\r?\n)*\r?\n)*"
    rb"HTTP/1\.[01] ([2-9][0-9]{2})(?: ([^\r\n]*))?\r?\n"
)
_RETRY_AFTER = re.compile(rb"^retry-after:[ \t]*([^\r\n]*)", re.MULTILINE | re.IGNORECASE)


@dataclass(slots=True)
class Exchange:
    """
    A request, and the connection that it was sent on.

    Attributes:
        is_connection_new: whether the connection was opened for it.
        connection: the connection; None before the request is sent.
    """

    is_connection_new: bool = False
    connection: ObservedConnection | None = None

    @property
    def is_connection_stale(self) -> bool:
        """Return whether the request was sent on an older connection, and nothing has come."""
        has_begun = self.connection is not None and bool(self.connection.seen)
        return not (self.is_connection_new or has_begun)

    def answer(self) -> Answer | None:
        """Return the answer as far as it has come; None if there is no whole status line."""
        return None if self.connection is None else parse_answer(bytes(self.connection.seen))


#: The exchange of this task.
exchange: ContextVar[Exchange | None] = ContextVar("rsmq_exchange", default=None)


class ObservedConnection(ResponseHandler):
    """
    A connection that remembers the beginning of the answer to its last request.

    Attributes:
        seen: the first bytes of the answer.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self.seen = bytearray()

    def set_response_params(self, **params: Any) -> None:
        self.seen.clear()
        current = exchange.get()
        if current is not None:
            current.connection = self
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        if len(self.seen) < _MAX_HEAD_BYTES:
            self.seen += data[: _MAX_HEAD_BYTES - len(self.seen)]
        super().data_received(data)


def observe_connections(connector: aiohttp.BaseConnector) -> None:
    """Let a connector make connections of this kind."""
    loop = asyncio.get_running_loop()
    kind: type[ResponseHandler] = ObservedConnection
    connector._factory = partial(kind, loop=loop)  # noqa: SLF001 - there is no other way


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
