"""
An asyncio client on the server of a synchronous one, for async handlers.
"""

from __future__ import annotations

from typing import Any, Generic

import redis
import redis.asyncio
import redis.asyncio.cluster

from rsmq._sync.cells import Cells
from rsmq._sync.client import RSMQ
from rsmq.aio import AsyncRSMQ
from rsmq.cells.cells import AsyncCells, open_async_queues
from rsmq.errors import InvalidFormat, show_type
from rsmq.transport.redis_py import cluster_connection_options, parameters_of
from rsmq.type_variables import B_co

_CLASSES: dict[type, type] = {
    redis.Connection: redis.asyncio.Connection,
    redis.SSLConnection: redis.asyncio.SSLConnection,
    redis.UnixDomainSocketConnection: redis.asyncio.UnixDomainSocketConnection,
}
#: Options of connections whose values have other classes with asyncio, or belong to one pool.
_OWN_OPTIONS = {"retry", "parser_class"}


class AsyncClient(Generic[B_co]):
    """An asyncio client with the server and the settings of a synchronous one."""

    def __init__(self, rsmq: RSMQ[B_co] | Cells) -> None:
        """
        Make it; it connects with its first call.

        Args:
            rsmq: the synchronous client.

        Raises:
            InvalidFormat: that client was made with a client of redis-py for Sentinel, or with
                connections of a class of its own.
        """
        clients = rsmq.cells
        first = clients[0]
        settings: dict[str, Any] = {
            "codec": first.codec,
            "realtime": first.realtime,
            "strict_names": first.namespace.strict_names,
            "retry_deadline": first.origin.retry_deadline,
            "confirm": first._confirm,  # noqa: SLF001 - a setting of the client, like the others
            **rsmq.engine.place,
        }
        self._connections: dict[int, Any] = {}
        self.rsmq: AsyncRSMQ[B_co] | AsyncCells
        origins = [client.origin for client in clients]
        if first.origin.url is not None:
            options = {
                name: value
                for name, value in first.origin.options.items()
                if name not in _OWN_OPTIONS
            }
            urls = [str(origin.url) for origin in origins]
            self.rsmq = open_async_queues(urls, **settings, **options)
        else:
            for origin in origins:
                if id(origin.client) not in self._connections:
                    self._connections[id(origin.client)] = _make_async(origin.client)
            connections = [self._connections[id(origin.client)] for origin in origins]
            if "cells" in settings:
                self.rsmq = AsyncCells(connections, **settings)
            else:
                self.rsmq = AsyncRSMQ(connections[0], **settings)

    async def close(self) -> None:
        """Close it, in the event loop that has used it."""
        await self.rsmq.close()
        for connection in self._connections.values():
            await connection.aclose()


def _make_async(client: Any) -> redis.asyncio.Redis | redis.asyncio.RedisCluster:
    if type(client).__module__.startswith("fakeredis"):
        import fakeredis  # noqa: PLC0415 - an extra

        server = client.connection_pool.connection_kwargs["server"]
        return fakeredis.FakeAsyncRedis(server=server)
    if isinstance(client, redis.RedisCluster):
        return _make_async_cluster(client)
    pool = getattr(client, "connection_pool", None)
    kind = None if type(pool) is not redis.ConnectionPool else _CLASSES.get(pool.connection_class)
    if pool is None or kind is None:
        raise InvalidFormat(
            "client",
            value=show_type(client),
            hint="worker.aio can't be made from a client for Sentinel. Use a URL, as in "
            "RSMQ.from_url('redis+sentinel://HOST:26379/mymaster/0'), or make an AsyncRSMQ of your "
            "own.",
        )
    names = parameters_of(kind)
    options = {
        name: value
        for name, value in pool.connection_kwargs.items()
        if name in names and name not in _OWN_OPTIONS
    }
    return redis.asyncio.Redis.from_pool(
        redis.asyncio.ConnectionPool(connection_class=kind, **options)
    )


def _make_async_cluster(client: redis.RedisCluster) -> redis.asyncio.RedisCluster:
    connection_class, options = cluster_connection_options(client)
    names = parameters_of(redis.asyncio.RedisCluster)
    return redis.asyncio.RedisCluster(
        startup_nodes=[
            redis.asyncio.cluster.ClusterNode(node.host, node.port)
            for node in client.nodes_manager.nodes_cache.values()
        ],
        address_remap=client.nodes_manager.address_remap,
        ssl=issubclass(connection_class, redis.SSLConnection),
        **{
            name: value
            for name, value in options.items()
            if name in names and name not in {*_OWN_OPTIONS, "host", "port", "db"}
        },
    )
