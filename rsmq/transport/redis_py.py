"""
The private attributes of redis-py's connections that this library uses, in one place.

There is no public way to the open socket of a connection. ``tests/faults/test_redis_py.py`` fails
if a release of redis-py has changed one of these attributes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import hiredis
from redis.exceptions import InvalidResponse


def socket_of(connection: Any) -> Any:
    """Return the open socket of a synchronous connection; None if it is closed."""
    return connection._sock  # noqa: SLF001 - see the docstring of the module, here and below


def socket_of_asyncio(connection: Any) -> Any:
    """Return the open socket of an asyncio connection; None if it is closed or not accessible."""
    info = getattr(getattr(connection, "_writer", None), "get_extra_info", None)
    return None if info is None else info("socket")


def detach_writer(connection: Any) -> Any:
    """Detach the stream writer of an asyncio connection, which no longer closes it; return it."""
    writer = connection._writer  # noqa: SLF001
    connection._reader = connection._writer = None  # noqa: SLF001
    return writer


def make_reader(connection: Any, not_enough_data: object) -> hiredis.Reader:
    """Return a reader of replies that creates the same errors as the parser of the connection."""
    return hiredis.Reader(
        protocolError=InvalidResponse,
        replyError=connection._parser.parse_error,  # noqa: SLF001
        notEnoughData=not_enough_data,
    )


def set_invalidation_handler(connection: Any, handle: Callable[[Any], Awaitable[Any]]) -> None:
    """Set the function that an asyncio connection calls with each invalidation message."""
    connection._parser.set_invalidation_push_handler(handle)  # noqa: SLF001
