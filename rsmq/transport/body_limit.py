"""
The largest body that a server accepts, and connections of their own for calls with large bodies.

A server closes the connection of a command with a larger body. On the connection that all calls of
an event loop share, the other calls would fail too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from redis.exceptions import ResponseError

from rsmq.wire.limits import MAX_BODY_BYTES

LIMIT_COMMAND = (b"CONFIG", b"GET", b"proto-max-bulk-len")


def body_limit(reply: Any) -> int:
    """
    Return the number of bytes of the largest body that a server accepts.

    Args:
        reply: the reply to LIMIT_COMMAND; an error if the user has no right to ask. Then the
            server is assumed to have the default.

    Raises:
        RedisError: the connection broke.
    """
    if isinstance(reply, Exception) and not isinstance(reply, ResponseError):
        raise reply
    values = list(reply.values()) if isinstance(reply, dict) else reply
    if isinstance(values, list) and values and bytes(values[-1]).isdigit():
        return int(values[-1])
    return MAX_BODY_BYTES


class _Connection(Protocol):
    def retire(self) -> None: ...

    def start_closing(self) -> None: ...

    async def close(self) -> None: ...


C = TypeVar("C", bound=_Connection)


class OwnConnections:
    """The connections of calls of one event loop that have one of their own."""

    def __init__(self) -> None:
        self._open: set[_Connection] = set()

    @contextmanager
    def add(self, connection: C) -> Iterator[C]:
        """Close a connection at the end of the block, at the latest after the grace period."""
        self._open.add(connection)
        try:
            yield connection
        finally:
            self._open.discard(connection)
            connection.start_closing()

    def retire(self) -> None:
        """As that of ReconnectingConnection."""
        for each in self._open:
            each.retire()

    def start_closing(self) -> None:
        """As that of ReconnectingConnection."""
        for each in self._open:
            each.start_closing()

    async def close(self) -> None:
        """As that of ReconnectingConnection."""
        await asyncio.gather(*(each.close() for each in self._open))
