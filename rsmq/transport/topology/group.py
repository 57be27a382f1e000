"""
A group of servers as a program names it: by a URL, or by a client of redis-py.

It has all that the two faces need to make a topology and connections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rsmq.transport.redis_py import cluster_connection_options
from rsmq.transport.topology.address import Address, AddressRemap
from rsmq.transport.topology.cluster import ClusterTopology
from rsmq.transport.topology.sentinel import SentinelTopology
from rsmq.transport.topology.topology import QUESTION_TIMEOUT_SECONDS, Question, Topology
from rsmq.transport.url import GroupUrl

#: Options of redis-py's pools and clients that a connection to another server must not get.
_NOT_COPIED = ("maint_notifications", "orig_", "oss_cluster_maint", "himport_")
_OF_OTHER_SERVER = ("host", "port", "connection_pool")
_CREDENTIALS = ("username", "password", "credential_provider")


@dataclass(frozen=True, slots=True)
class ConnectionLimit:
    """
    The number of connections to one server that threads share.

    Attributes:
        number: the largest number of open connections.
        wait: seconds that a call waits for one if all are in use; None is forever.
    """

    number: int
    wait: float | None = 0.0


@dataclass(frozen=True, slots=True)
class ServerPool:
    """
    The class and the options of connections to one server, as a pool of redis-py has them.

    Attributes:
        limit: the number of connections of threads; None if each thread has one.
        lender: the pool of redis-py that must make the connections; None if they are our own.
    """

    connection_class: Any
    connection_kwargs: Mapping[str, Any] = field(repr=False)
    limit: ConnectionLimit | None = None
    lender: Any = None


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """
    The servers of a Redis Cluster, or of a Sentinel group.

    Attributes:
        seeds: the addresses that the program gave.
        connection_class: the class of redis-py's connections.
        options: the options of connections, without host and port.
        service: the name of the primary; None for a cluster.
        sentinels: the connections to Sentinels, without host and port; None for a cluster.
        remap: changes the addresses that servers report.
        limit: the number of connections of threads to each server; None if each thread has one.
    """

    seeds: tuple[Address, ...]
    connection_class: Any
    options: Mapping[str, Any] = field(repr=False)
    service: str | None = None
    sentinels: ServerPool | None = None
    remap: AddressRemap | None = None
    limit: ConnectionLimit | None = None

    def make_topology(self) -> Topology:
        """Return a topology that knows only the seeds."""
        if self.service is not None:
            return SentinelTopology(self.seeds, self.service, remap=self.remap)
        # Certificates have host names, so the connection is made by the name.
        is_encrypted = "ssl" in self.connection_class.__name__.lower()
        return ClusterTopology(self.seeds, remap=self.remap, prefers_host_names=is_encrypted)

    def server_options(self, address: Address) -> dict[str, Any]:
        """Return the options of a connection to one of the servers."""
        return {**self.options, "host": address.host, "port": address.port}

    def make_question_connection(self, question: Question) -> Any:
        """Return a connection for one question; it is not open yet."""
        connection_class, options = self.connection_class, self.options
        if question.is_for_sentinel and self.sentinels is not None:
            connection_class = self.sentinels.connection_class
            options = self.sentinels.connection_kwargs
        options = {**options, "host": question.address.host, "port": question.address.port}
        for name in ("socket_timeout", "socket_connect_timeout"):
            seconds = options.get(name)
            options[name] = min(seconds or QUESTION_TIMEOUT_SECONDS, QUESTION_TIMEOUT_SECONDS)
        options.pop("redis_connect_func", None)
        options |= {"protocol": 2, "decode_responses": False, "health_check_interval": 0}
        return connection_class(**options)


def group_from_pool(url: GroupUrl, pool: Any, limit: ConnectionLimit | None = None) -> ServerGroup:
    """
    Return the group of a URL.

    Args:
        pool: a pool of redis-py that was made from the part of the URL for one server.
        limit: the number of connections of threads to each server.
    """
    options = copied_options(pool.connection_kwargs)
    sentinels = None
    if url.service is not None:
        own: dict[str, Any] = {"username": url.sentinel_username, "password": url.sentinel_password}
        others = {name: value for name, value in options.items() if name not in _CREDENTIALS}
        sentinels = ServerPool(pool.connection_class, {**others, **own, "db": 0})
    return ServerGroup(
        url.seeds, pool.connection_class, options, url.service, sentinels, url.address_remap, limit
    )


def own_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a connection that one of our own to the same server can have too."""
    return {name: value for name, value in options.items() if not name.startswith(_NOT_COPIED)}


def own_settings(retry: object) -> dict[str, Any]:
    """Return the options of our own connections that replace those of a client of redis-py."""
    return {"retry": retry, "protocol": 2, "decode_responses": False}


def copied_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a connection that a connection to another server can have too."""
    return {
        name: value for name, value in own_options(options).items() if name not in _OF_OTHER_SERVER
    }


def group_from_cluster(client: Any, retry: object) -> ServerGroup:
    """
    Return the group of a RedisCluster of redis-py: its seeds and the options of its connections.

    Args:
        client: the client, synchronous or asyncio.
        retry: an object of redis-py that makes its connections repeat nothing.
    """
    manager = client.nodes_manager
    nodes = [*manager.startup_nodes.values(), *manager.nodes_cache.values()]
    connection_class, options = cluster_connection_options(client)
    prepare = getattr(client, "user_on_connect_func", None)
    if prepare is not None:
        options["redis_connect_func"] = partial(_connect_and_prepare, prepare)
    return ServerGroup(
        tuple(dict.fromkeys(Address(node.host, int(node.port)) for node in nodes)),
        connection_class,
        copied_options(options) | own_settings(retry),
        remap=manager.address_remap,
    )


def _connect_and_prepare(prepare: Callable[[Any], object], connection: Any) -> None:
    connection.on_connect()
    prepare(connection)
