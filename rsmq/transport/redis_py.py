"""
The private attributes of redis-py's connections that this library uses, in one place.

There is no public way to the open socket of a connection. ``tests/faults/test_redis_py.py`` fails
if a release of redis-py has changed one of these attributes.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import hiredis
from redis.exceptions import InvalidResponse


def socket_of(connection: Any) -> Any:
    """Return the open socket of a synchronous connection; None if it is closed."""
    return connection._sock  # noqa: SLF001 - see the docstring of the module, here and below


def set_timeout(connection: Any, seconds: float | None) -> float | None:
    """
    Set the timeout of the open socket of a synchronous connection; None has no end.

    Returns:
        The timeout that it had before.
    """
    open_socket: Any = getattr(connection, "_sock", None)
    if not hasattr(open_socket, "settimeout"):  # the sockets of fakeredis have no timeout
        return None
    before: float | None = open_socket.gettimeout()
    open_socket.settimeout(seconds)
    return before


def timeout_of_connections(connection_class: Any, options: Mapping[str, Any]) -> float | None:
    """
    Return the timeout of connections with these options; None has no end.

    Without the option, it is the default of their class, which depends on the release of redis-py.
    """
    if "socket_timeout" in options:
        timeout: float | None = options["socket_timeout"]
        return timeout
    return getattr(connection_class(**options), "socket_timeout", None)


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


def is_client_of_group(client: Any) -> bool:
    """Return whether a client of redis-py is one of a Redis Cluster or of Sentinels."""
    pool = getattr(client, "connection_pool", None)
    return hasattr(client, "nodes_manager") or hasattr(pool, "sentinel_manager")


def forced_primary(sentinel: Any) -> str | None:
    """Return the host that a Sentinel object of redis-py uses instead of the reported one."""
    forced: str | None = getattr(sentinel, "_force_master_ip", None)
    return forced


def cluster_connection_options(client: Any) -> tuple[Any, dict[str, Any]]:
    """
    Return the class and the options of the connections of a RedisCluster.

    Args:
        client: the client. A synchronous one has connected when it was made.
    """
    for node in client.nodes_manager.nodes_cache.values():
        pool = getattr(getattr(node, "redis_connection", None), "connection_pool", None)
        if pool is not None:  # synchronous
            options = dict(pool.connection_kwargs)
            options.pop("redis_connect_func", None)  # it may connect in a mode for replicas
            return pool.connection_class, options
    options = dict(client.connection_kwargs)
    connection_class = options.pop("connection_class")
    names = parameters_of(connection_class) - {"redis_connect_func"}
    return connection_class, {name: value for name, value in options.items() if name in names}


def parameters_of(connection_class: type) -> set[str]:
    """Return the names of the parameters of a connection class and its base classes."""
    return {
        name
        for each in connection_class.__mro__
        if "__init__" in vars(each)
        for name in inspect.signature(vars(each)["__init__"]).parameters
    }
