"""
Clients of redis-py for plain commands, for each kind of URL.

They repeat commands by the rules of redis-py, so they are for commands that may run twice.
"""

from __future__ import annotations

from typing import Any

import redis
from redis.cluster import ClusterNode, RedisCluster
from redis.connection import parse_url
from redis.exceptions import RedisClusterException
from redis.retry import Retry
from redis.sentinel import Sentinel

from rsmq.transport.topology.address import AddressRemap
from rsmq.transport.url import GroupUrl, is_group_url, parse_group_url


def open_redis(url: str, retry: Retry, **options: Any) -> Any:
    """
    Return a client of redis-py: a RedisCluster for the URL of a Redis Cluster, else a Redis.

    Args:
        url: the URL, as for ``RSMQ.from_url``.
        retry: the rule by which redis-py repeats commands.
        options: options of redis-py; those of the URL have precedence.

    Raises:
        RedisError: no node of the Redis Cluster answers.
    """
    if not is_group_url(url):
        return redis.Redis.from_url(url, retry=retry, **options)
    parts = parse_group_url(url).take_options(options)
    options |= parse_url(parts.server_url)  # type: ignore[no-untyped-call]
    for name in ("host", "port"):
        options.pop(name, None)
    if options.pop("connection_class", None) is not None:  # of TLS
        options["ssl"] = True
    if parts.service is not None:
        return _open_primary(parts, retry, options)
    options.pop("db", None)
    nodes = [ClusterNode(*address) for address in parts.seeds]  # type: ignore[no-untyped-call]
    try:
        return RedisCluster(
            startup_nodes=nodes, retry=retry, address_remap=parts.address_remap, **options
        )
    except RedisClusterException as error:  # no RedisError
        raise redis.ConnectionError(str(error)) from error


def _open_primary(parts: GroupUrl, retry: Retry, options: dict[str, Any]) -> redis.Redis:
    credentials = {"username": parts.sentinel_username, "password": parts.sentinel_password}
    sentinel_options = {
        **{name: value for name, value in options.items() if name.startswith(("ssl", "socket"))},
        **{name: value for name, value in credentials.items() if value is not None},
    }
    kind: Any = Sentinel if parts.address_remap is None else _remapped(parts.address_remap)
    sentinel = kind(list(parts.seeds), sentinel_kwargs=sentinel_options, **options)
    client: redis.Redis = sentinel.master_for(parts.service, retry=retry)
    return client


def _remapped(remap: AddressRemap) -> type[Sentinel]:
    class RemappedSentinel(Sentinel):
        """Changes the addresses that Sentinels report."""

        def discover_master(self, service_name: str) -> tuple[str, int]:
            return remap(super().discover_master(service_name))  # type: ignore[no-untyped-call]

    return RemappedSentinel
