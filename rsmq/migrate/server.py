"""
The Redis server of a source or a target.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

import redis
from redis.backoff import ExponentialBackoff
from redis.cluster import RedisCluster
from redis.exceptions import ResponseError
from redis.retry import Retry

from rsmq._sync.client import RSMQ
from rsmq.errors import NotPossible
from rsmq.transport.failure_texts import describe_address
from rsmq.transport.plain_clients import open_redis
from rsmq.transport.url import without_options
from rsmq.wire.keys import DEFAULT_NS

T = TypeVar("T")

#: The options of a URL that change the form of replies.
_REPLY_OPTIONS = {"protocol", "decode_responses", "encoding", "encoding_errors"}

_PROBE_MS = 60_000


class Server:
    """
    A Redis server, and a namespace of queues on it.

    Attributes:
        rsmq: the client for operations of this library.
        raw: the client of redis-py, for plain commands.
        realtime: whether to publish the number of messages when some are added, for subscribers
            of Node's ``realtime``.
    """

    def __init__(
        self, rsmq: RSMQ, client: redis.Redis | RedisCluster, *, realtime: bool = False
    ) -> None:
        """
        Combine two clients of the same server, or of the same Redis Cluster.

        Args:
            rsmq: the client for operations of this library.
            client: the client of redis-py, without ``decode_responses``.
            realtime: whether to publish the number of messages when some are added.
        """
        self.rsmq = rsmq
        self.realtime = realtime
        self.raw: Any = client  # its replies depend on its settings

    @classmethod
    def from_url(cls, url: str, *, ns: str = DEFAULT_NS, realtime: bool = False) -> Self:
        """
        Open both clients.

        Args:
            url: the URL, as for ``RSMQ.from_url``.
            ns: the namespace of the queues.
            realtime: whether to publish the number of messages when some are added.

        Raises:
            NotPossible: the URL is ``memory://``.
        """
        if url.startswith("memory://"):
            raise NotPossible(
                "memory:// can't be the source or the target",
                hint="Give the url of a Redis: redis://, rediss://, unix://, redis+cluster:// or "
                "redis+sentinel://.",
            )
        rsmq = RSMQ.from_url(url, ns=ns, realtime=realtime, strict_names=False)
        # Few retries, soon after each other: a run that breaks off continues when it is run again.
        retry = Retry(ExponentialBackoff(cap=0.5, base=0.05), 2)
        raw = open_redis(without_options(url, _REPLY_OPTIONS), retry, protocol=2)
        return cls(rsmq, raw, realtime=realtime)

    def close(self) -> None:
        """Close the connections of both clients."""
        self.rsmq.close()
        self.raw.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def address(self) -> str:
        """The host and port, or the path of the socket, and the database: ``localhost:6379/0``."""
        if self.is_cluster:
            node = self.raw.get_default_node()
            return f"{node.host}:{node.port} (Redis Cluster)"
        options = self.raw.connection_pool.connection_kwargs
        return f"{describe_address(options)}/{options.get('db') or 0}"

    @property
    def is_cluster(self) -> bool:
        """Whether it is a Redis Cluster."""
        return isinstance(self.raw, RedisCluster)

    def now_us(self) -> int:
        """Return the server's time in Unix microseconds."""
        seconds, microseconds = self.raw.time()
        return int(seconds * 1_000_000 + microseconds)

    def pipelined(self, add: Callable[[Any, T], object], values: Sequence[T]) -> list[Any]:
        """
        Run many commands in one round trip, not atomically, and return their replies.

        Args:
            add: adds the command for one value to a pipeline.
            values: one value for each command.
        """
        if not values:
            return []
        with self.raw.pipeline(transaction=False) as pipeline:
            for value in values:
                add(pipeline, value)
            replies: list[Any] = pipeline.execute()
        return replies

    def is_also(self, other: Server) -> bool:
        """
        Return whether both are the same server and database, so that one script can use both.

        On a Redis Cluster they never are: their keys may be on different nodes, also later.
        Compares the ``run_id`` of INFO. If a user may not run INFO, sets a key of its own for a
        moment, and looks for it on the other server.
        """
        if self.is_cluster or other.is_cluster:
            return False
        databases = [
            each.raw.connection_pool.connection_kwargs.get("db") or 0 for each in (self, other)
        ]
        if databases[0] != databases[1]:
            return False
        try:
            ids = [each.raw.info("server").get("run_id") for each in (self, other)]
        except ResponseError:  # the user has no right for INFO
            ids = [None, None]
        if None not in ids:
            return bool(ids[0] == ids[1])
        key = self.rsmq.namespace.aside(f"probe:{secrets.token_hex(8)}")
        self.raw.set(key, b"", px=_PROBE_MS)
        try:
            return bool(other.raw.exists(key))
        finally:
            self.raw.delete(key)
