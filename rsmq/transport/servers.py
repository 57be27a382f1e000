"""
The servers that a program names by a URL or by a client of redis-py, and how to connect to them.

A client that is handed in only says that: its options make connections of our own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import iscoroutinefunction
from typing import Any

import redis
import redis.asyncio
import redis.sentinel
from redis.asyncio.retry import Retry as AsyncRetry
from redis.asyncio.sentinel import SentinelManagedConnection as AsyncSentinelManagedConnection
from redis.asyncio.sentinel import SentinelManagedSSLConnection as AsyncSentinelManagedSSLConnection
from redis.backoff import NoBackoff

from rsmq.errors import InvalidFormat, show_type
from rsmq.errors.guarded_log import get_logger
from rsmq.transport.options import add_default_options, create_pool
from rsmq.transport.origin import Origin
from rsmq.transport.redis_py import forced_primary, is_client_of_group, parameters_of
from rsmq.transport.retry import choose_deadline
from rsmq.transport.topology.address import Address
from rsmq.transport.topology.group import (
    ConnectionLimit,
    ServerGroup,
    ServerPool,
    copied_options,
    group_from_cluster,
    group_from_pool,
    own_options,
    own_settings,
)
from rsmq.transport.url import is_group_url, parse_group_url
from rsmq.wire.keys import Namespace, require_hash_tag

_log = get_logger("rsmq.transport")

#: The classes of connections to the primary of Sentinels, and the classes that do not ask them.
_PLAIN_CLASSES: dict[Any, type] = {
    redis.sentinel.SentinelManagedConnection: redis.Connection,
    redis.sentinel.SentinelManagedSSLConnection: redis.SSLConnection,
    AsyncSentinelManagedConnection: redis.asyncio.Connection,
    AsyncSentinelManagedSSLConnection: redis.asyncio.SSLConnection,
}
_ASYNCIO_CLASSES: dict[Any, type] = {
    redis.Connection: redis.asyncio.Connection,
    redis.SSLConnection: redis.asyncio.SSLConnection,
    redis.UnixDomainSocketConnection: redis.asyncio.UnixDomainSocketConnection,
}
#: Options whose values have other classes with asyncio, or that it does not need.
_SYNC_OPTIONS = {"parser_class", "command_packer"}
#: The methods of a connection that our own reading and writing of its socket replaces.
_INPUT_AND_OUTPUT = ("read_response", "send_packed_command")

#: The classes that were reported.
_reported: set[type] = set()


def origin_of_url(
    face: Any, url: str, namespace: Namespace, retry_deadline: float | None, options: dict[str, Any]
) -> Origin:
    """
    Return how a client reaches the servers of a URL.

    Args:
        face: ``redis`` or ``redis.asyncio``.
        url: the URL of the server, of a Redis Cluster or of Sentinels.
        retry_deadline: seconds for retries; None is the default.
        options: options of connections for redis-py, and those of ``GroupUrl.take_options``.

    Raises:
        InvalidFormat: redis-py rejects the URL or an option, or it is that of a Redis Cluster and
            the namespace has no hash tag.
    """
    all_options = add_default_options(options, face.retry.Retry(NoBackoff(), 0))
    parts = parse_group_url(url).take_options(all_options) if is_group_url(url) else None
    server_url = url if parts is None else parts.server_url
    pool = create_pool(url, lambda: face.Redis.from_url(server_url, **all_options).connection_pool)
    # With a limit the threads must share connections; without one each thread has its own.
    has_limit = "max_connections" in options or "max_connections=" in url
    limit = ConnectionLimit(pool.max_connections) if has_limit else None
    deadline = choose_deadline(retry_deadline, is_group=parts is not None)
    if parts is None:
        servers = ServerPool(pool.connection_class, pool.connection_kwargs, limit)
        return Origin(servers, deadline, url)
    group = group_from_pool(parts, pool, limit)
    if group.service is None:
        require_hash_tag(namespace)
    return Origin(group, deadline, url)


def origin_of_client(
    face: Any,
    client: Any,
    namespace: Namespace,
    retry_deadline: float | None,
    suggest: Callable[[object], str],
) -> Origin:
    """
    Return how a client reaches the servers of a client of redis-py.

    Args:
        face: ``redis`` or ``redis.asyncio``.
        retry_deadline: seconds for retries; None is the default.
        suggest: returns the hint about another object.

    Raises:
        InvalidFormat: it is not a client of this face, or it is a RedisCluster and the namespace
            has no hash tag.
    """
    if isinstance(client, face.RedisCluster):
        require_hash_tag(namespace)
    elif not isinstance(client, face.Redis) or isinstance(client, face.client.Pipeline):
        raise InvalidFormat("client", value=show_type(client), hint=suggest(client))
    deadline = choose_deadline(retry_deadline, is_group=is_client_of_group(client))
    return Origin(servers_of_client(client, face.retry.Retry(NoBackoff(), 0)), deadline)


def servers_of_client(client: Any, retry: object) -> ServerPool | ServerGroup:
    """
    Return where and how a client of redis-py connects.

    Args:
        client: the client, synchronous or asyncio.
        retry: an object of redis-py that makes its connections repeat nothing.
    """
    if hasattr(client, "nodes_manager"):
        return group_from_cluster(client, retry)
    pool = client.connection_pool
    connection_class, manager = pool.connection_class, getattr(pool, "sentinel_manager", None)
    lent = ServerPool(connection_class, pool.connection_kwargs, lender=pool)
    if not isinstance(connection_class, type) or any(
        _is_overridden(connection_class, name) for name in _INPUT_AND_OUTPUT
    ):
        return lent  # its connections have no socket, as those of fakeredis
    for each, methods in (
        (client, ("execute_command",)),
        (pool, ("get_connection", "make_connection")),
        (manager, ("discover_master",)),
    ):
        if each is None:
            continue
        replaced = getattr(each, "__dict__", {})
        if any(_is_overridden(type(each), name) or name in replaced for name in methods):
            _report(type(each), " or ".join(methods))
            return lent
    if manager is not None:
        connection_class = _PLAIN_CLASSES.get(connection_class)
        if connection_class is None or not pool.is_master:
            return lent
    options = own_options(pool.connection_kwargs) | own_settings(retry)
    wait = pool.timeout if isinstance(pool, redis.BlockingConnectionPool) else 0.0
    limit = ConnectionLimit(pool.max_connections, wait)
    if manager is None:
        return ServerPool(connection_class, options, limit)
    sentinel_pools = [each.connection_pool for each in manager.sentinels]
    first = sentinel_pools[0]
    forced = forced_primary(manager)
    return ServerGroup(
        tuple(
            Address(each.connection_kwargs["host"], int(each.connection_kwargs["port"]))
            for each in sentinel_pools
        ),
        connection_class,
        copied_options(options),
        pool.service_name,
        ServerPool(
            first.connection_class, copied_options(first.connection_kwargs) | own_settings(retry)
        ),
        None if forced is None else lambda address: (forced, address[1]),
        limit,
    )


def owner_of_connections(client: Any, servers: ServerPool | ServerGroup) -> Any:
    """
    Return the pool of a client of redis-py, whose connections all clients around it share.

    None if each has its own: of a RedisCluster, to which they refer, and of a pool that lends its
    connections.
    """
    if hasattr(client, "nodes_manager"):
        return None
    lends = isinstance(servers, ServerPool) and servers.lender is not None
    return None if lends else client.connection_pool


def _is_overridden(kind: type, method: str) -> bool:
    """Return whether a class outside of redis-py defines a method of it; patched ones don't."""
    owner = next((each for each in kind.__mro__ if method in vars(each)), None)
    return owner is not None and owner.__module__.partition(".")[0] != "redis"


def _report(kind: type, methods: str) -> None:
    if kind not in _reported:
        _reported.add(kind)
        _log.warning(
            "%s.%s has a %s of its own, not that of redis-py: the pool of the client makes the "
            "connections, which is slower than connections of our own",
            kind.__module__, kind.__qualname__, methods,
        )  # fmt: skip


def as_asyncio(servers: ServerPool | ServerGroup) -> ServerPool | ServerGroup:
    """
    Return the same servers with asyncio connections.

    Raises:
        InvalidFormat: the connections have a class of their own, or an option that redis.asyncio
            does not have.
    """
    if isinstance(servers, ServerPool):
        return _pool_as_asyncio(servers)
    pool = _pool_as_asyncio(ServerPool(servers.connection_class, servers.options))
    return replace(
        servers,
        connection_class=pool.connection_class,
        options=pool.connection_kwargs,
        sentinels=servers.sentinels and _pool_as_asyncio(servers.sentinels),
    )


def _pool_as_asyncio(servers: ServerPool) -> ServerPool:
    if servers.lender is not None and "server" in servers.connection_kwargs:
        import fakeredis  # noqa: PLC0415 - an extra

        pool = fakeredis.FakeAsyncRedis(server=servers.connection_kwargs["server"]).connection_pool
        return ServerPool(pool.connection_class, pool.connection_kwargs, lender=pool)
    kind = _ASYNCIO_CLASSES.get(servers.connection_class)
    options = {
        name: value
        for name, value in own_options(servers.connection_kwargs).items()
        if name not in _SYNC_OPTIONS
    }
    names = set() if kind is None else parameters_of(kind)
    refused = [name for name, value in options.items() if kind and name not in names and value]
    prepare = options.get("redis_connect_func")
    if kind is None:
        wrong = "redis.asyncio has no such connection"
    elif refused:
        wrong = f"redis.asyncio has no such option: {', '.join(refused)}"
    elif prepare is not None and not iscoroutinefunction(prepare):
        wrong = "Its redis_connect_func can't prepare a connection of redis.asyncio"
    else:
        options = {name: value for name, value in options.items() if name in names}
        return ServerPool(kind, options | own_settings(AsyncRetry(NoBackoff(), 0)))
    raise InvalidFormat(
        "client",
        value=servers.connection_class.__name__,
        hint=f"{wrong}. Make an AsyncRSMQ of your own.",
    )
