"""
A client of redis-py whose connections go to the server that has one key, of several servers.

For plain commands on the keys of one slot. It repeats commands by the rules of redis-py, so the
commands must be such that may run twice.
"""

from __future__ import annotations

from typing import Any

import redis
import redis.exceptions as redis_errors
from redis.retry import Retry

from rsmq.transport.options import create_pool
from rsmq.transport.threads.router import ServerRouter
from rsmq.transport.topology.group import group_from_pool
from rsmq.transport.url import parse_group_url

#: After these errors redis-py connects again, and the connection asks which server has the key.
_ERRORS_OF_OTHER_SERVERS = [
    redis_errors.MovedError,
    redis_errors.AskError,
    redis_errors.TryAgainError,
    redis_errors.ClusterDownError,
    redis_errors.ReadOnlyError,
    redis_errors.MasterDownError,
]


def open_routed_pool(url: str, key: bytes, retry: Retry, **options: Any) -> redis.ConnectionPool:
    """
    Return a pool of connections to the server that has a key.

    Args:
        url: the URL of a Redis Cluster or of a Sentinel group.
        key: the key; the connections are for all keys of its slot.
        retry: the rule by which redis-py repeats commands.
        options: options of redis-py, and those of ``GroupUrl.take_options``; those of the URL have
            precedence.

    Raises:
        InvalidFormat: redis-py rejects the URL or an option.
    """
    parts = parse_group_url(url).take_options(options)
    template = create_pool(
        url, lambda: redis.Redis.from_url(parts.server_url, **options).connection_pool
    )
    group = group_from_pool(parts, template)
    router = ServerRouter(group)  # it only names the server, and opens nothing
    base: Any = group.connection_class

    class RoutedConnection(base):  # type: ignore[misc]
        """A connection that asks for the server of the key each time it connects."""

        def _connect(self) -> Any:
            router.topology.mark_stale()
            server = router.connections_for(key).pool.connection_kwargs
            self.host, self.port = server["host"], server["port"]
            try:
                return super()._connect()
            except (redis_errors.RedisError, OSError) as error:
                router.note_lost(key, error)
                raise

    return redis.ConnectionPool(
        RoutedConnection,
        **{**group.options, "retry": retry, "retry_on_error": _ERRORS_OF_OTHER_SERVERS},
    )
