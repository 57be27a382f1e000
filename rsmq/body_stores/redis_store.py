"""
``RedisStore``: bodies in Redis, beside the queues or on a server of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from redis import Redis, RedisCluster
from redis.cluster import ClusterNode
from redis.connection import parse_url

from rsmq.errors import InvalidFormat
from rsmq.transport.url import is_group_url, parse_group_url
from rsmq.wire.keys import body_key, parse_body_key, pattern_of_bodies

_PART_BYTES = 1024 * 1024


class RedisStore:
    """
    A store of bodies in Redis, for those without an object store.

    Each body is a string with the key ``NS:Q:x:body:NAME``, which is written and read in parts of 1
    MiB, so that other commands run in between. Bodies need the memory of the server. The store
    connects when it is used first, and can be pickled: the copy connects itself.
    """

    #: The largest body, bytes: the highest ``limit`` of ``Stored``.
    max_bytes = 64 * 1024 * 1024

    def __init__(self, url: str, **options: Any) -> None:
        """
        Use a server.

        Args:
            url: that of one server, as for ``Redis.from_url`` of redis-py; or
                ``redis+cluster://HOST:PORT,...``. In a cluster, all bodies of a namespace are on
                the node of its hash tag.
            options: other options of ``Redis``, or of ``RedisCluster``.

        Raises:
            InvalidFormat: url is malformed, or is that of Sentinels.
        """
        if is_group_url(url) and parse_group_url(url).service is not None:
            raise InvalidFormat(
                "url",
                value=parse_group_url(url).service,
                hint="A RedisStore does not ask Sentinels. Pass the URL of a server or a cluster.",
            )
        self._url = url
        self._options = options

    @cached_property
    def _redis(self) -> Any:
        options = {**self._options, "decode_responses": False}
        if not is_group_url(self._url):
            return Redis.from_url(self._url, **options)
        group = parse_group_url(self._url)
        of_url: Any = parse_url(group.server_url)  # type: ignore[no-untyped-call]
        of_url["ssl"] = of_url.pop("connection_class", None) is not None
        for name in ("host", "db"):
            of_url.pop(name, None)
        node: Any = ClusterNode
        seeds = [node(each.host, each.port) for each in group.seeds]
        return RedisCluster(
            startup_nodes=seeds, address_remap=group.address_remap, **{**options, **of_url}
        )

    def write(self, place: bytes, name: str, body: bytes) -> None:
        """See ``BodyStore``."""
        key = body_key(place, name)
        for at in range(0, max(len(body), 1), _PART_BYTES):
            self._redis.setrange(key, at, body[at : at + _PART_BYTES])

    def read(self, place: bytes, name: str, size: int) -> bytes:
        """See ``BodyStore``."""
        key = body_key(place, name)
        length = self._redis.strlen(key)
        if length == 0:
            raise FileNotFoundError
        if length != size:
            return b""
        starts = range(0, size, _PART_BYTES)
        return b"".join(self._redis.getrange(key, at, at + _PART_BYTES - 1) for at in starts)

    def delete(self, place: bytes, name: str) -> None:
        """See ``BodyStore``."""
        self._redis.unlink(body_key(place, name))

    def list(self, namespace: bytes) -> Iterator[tuple[bytes, str]]:
        """See ``BodyStore``."""
        for key in self._redis.scan_iter(pattern_of_bodies(namespace), count=1000):
            place, name = parse_body_key(key)
            yield place, name

    def close(self) -> None:
        """Close the connections; the next call opens one."""
        self._redis.close()

    def __repr__(self) -> str:
        return "RedisStore(...)"  # the URL may contain a password

    def __getstate__(self) -> dict[str, Any]:
        return {"_url": self._url, "_options": self._options}
