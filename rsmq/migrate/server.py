"""
The Redis server of a source or a target.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, Self

from redis.exceptions import ResponseError

from rsmq._sync.client import RSMQ
from rsmq.errors import NotPossible
from rsmq.operations.operation import Operation, RetryClass
from rsmq.operations.plain import (
    Word,
    encode_command,
    parse_info,
    parse_time_us,
    plain_command,
    plain_commands,
)
from rsmq.transport.failure_texts import describe_address
from rsmq.transport.topology.address import slot_of
from rsmq.transport.topology.group import ServerGroup, ServerPool
from rsmq.transport.url import without_options
from rsmq.wire.keys import DEFAULT_NS

#: The options of a URL that change the form of replies.
_REPLY_OPTIONS = {"protocol", "decode_responses", "encoding", "encoding_errors"}

#: The number of keys that SCAN examines in a step.
SCAN_COUNT = 1000

_PROBE_MS = 60_000


class Server:
    """
    A Redis server, and a namespace of queues on it.

    Attributes:
        rsmq: the client of the namespace.
        realtime: whether to publish the number of messages when some are added, for subscribers
            of Node's ``realtime``.
    """

    def __init__(self, rsmq: RSMQ, *, realtime: bool = False) -> None:
        """
        Use a client.

        Args:
            rsmq: the client of the namespace. It also runs plain commands.
            realtime: whether to publish the number of messages when some are added.
        """
        self.rsmq = rsmq
        self.realtime = realtime

    @classmethod
    def from_url(cls, url: str, *, ns: str = DEFAULT_NS, realtime: bool = False) -> Self:
        """
        Open a client.

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
        own = without_options(url, _REPLY_OPTIONS)
        return cls(
            RSMQ.from_url(own, ns=ns, realtime=realtime, strict_names=False), realtime=realtime
        )

    def close(self) -> None:
        """Close the connections of the client."""
        self.rsmq.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def address(self) -> str:
        """The host and port, or the path of the socket, and the database: ``localhost:6379/0``."""
        servers = self._servers
        if isinstance(servers, ServerPool):
            return f"{describe_address(servers.connection_kwargs)}/{self._database}"
        if self.is_cluster:
            return f"{servers.seeds[0]} (Redis Cluster)"
        return f"the master {servers.service} of the Sentinels/{self._database}"

    @property
    def _servers(self) -> ServerPool | ServerGroup:
        return self.rsmq.origin.servers

    @property
    def _database(self) -> int:
        servers = self._servers
        options = servers.options if isinstance(servers, ServerGroup) else servers.connection_kwargs
        return int(options.get("db") or 0)

    @property
    def is_cluster(self) -> bool:
        """Whether it is a Redis Cluster."""
        return isinstance(self._servers, ServerGroup) and self._servers.service is None

    def hmget(self, key: bytes, fields: Sequence[bytes]) -> list[bytes | None]:
        """Return fields of a hash."""
        found: list[bytes | None] = self.call("HMGET", key, *fields)
        return found

    def call(
        self,
        *words: Word,
        key: bytes | None = None,
        parse: Callable[[Any], Any] = lambda reply: reply,
        retry: RetryClass = RetryClass.ALWAYS,
        reply_timeout: float | None = None,
    ) -> Any:
        """Run a plain command, and return its reply; see ``plain_command``."""
        if key is None and len(words) == 1:
            key = self.rsmq.namespace.queues
        operation = plain_command(
            *words, key=key, parse=parse, retry=retry, reply_timeout=reply_timeout
        )
        return self.rsmq.run(operation)

    def ping(self) -> None:
        """Send a command once, without a retry."""
        operation: Operation[Any] = plain_command("PING", key=self.rsmq.namespace.queues)
        operation.retry_deadline = 0.0
        self.rsmq.run(operation)

    def now_us(self) -> int:
        """Return the server's time in Unix microseconds."""
        time: int = self.call("TIME", parse=parse_time_us)
        return time

    def pipelined(self, commands: Sequence[Sequence[Word]]) -> list[Any]:
        """
        Run many commands, not atomically, and return their replies.

        One server runs all in one round trip, a Redis Cluster those with keys in the same slot.

        Args:
            commands: the commands. The first argument of each is its key.
        """
        encoded = [encode_command(each) for each in commands]
        places: dict[int, list[int]] = {}
        for place, command in enumerate(encoded):
            places.setdefault(slot_of(command[1]) if self.is_cluster else 0, []).append(place)
        replies: list[Any] = [None] * len(encoded)
        for group in places.values():
            found = self.rsmq.run(
                plain_commands(encoded[group[0]][1], [encoded[place] for place in group])
            )
            for place, reply in zip(group, found, strict=True):
                replies[place] = reply
        return replies

    def scan(self, pattern: bytes | None = None, kind: str | None = None) -> Iterator[bytes]:
        """
        Yield the keys that match a pattern, of one type or of any, on all nodes; some come twice.

        Args:
            pattern: the pattern, as Redis matches it; None matches all.
            kind: the type, as TYPE returns it; None is any.
        """
        options: list[Word] = ["COUNT", SCAN_COUNT]
        if pattern is not None:
            options += "MATCH", pattern
        if kind is not None:
            options += "TYPE", kind
        for key in self._keys_of_nodes():
            cursor: Word = 0
            while True:
                cursor, found = self.call("SCAN", cursor, *options, key=key)
                yield from found
                if int(cursor) == 0:
                    break

    def _keys_of_nodes(self) -> list[bytes]:
        """Return a key for each server that has keys: it leads a command there."""
        if not self.is_cluster:
            return [self.rsmq.namespace.queues]
        ranges = {  # the last range of each primary, by its host and port
            (bytes(node[0] or b""), node[1]): range(first, last + 1)
            for first, last, node, *_ in self.call("CLUSTER", "SLOTS")
        }
        return [
            next(key for number in count() if slot_of(key := b"%d" % number) in slots)
            for slots in ranges.values()
        ]

    def is_also(self, other: Server) -> bool:
        """
        Return whether both are the same server and database, so that one script can use both.

        On a Redis Cluster they never are: their keys may be on different nodes, also later.
        Compares the ``run_id`` of INFO. If a user may not run INFO, sets a key of its own for a
        moment, and looks for it on the other server.
        """
        if self.is_cluster or other.is_cluster:
            return False
        databases = [each._database for each in (self, other)]  # noqa: SLF001
        if databases[0] != databases[1]:
            return False
        try:
            ids = [
                each.call("INFO", "server", parse=parse_info).get("run_id")
                for each in (self, other)
            ]
        except ResponseError:  # the user has no right for INFO
            ids = [None, None]
        if None not in ids:
            return bool(ids[0] == ids[1])
        key = self.rsmq.namespace.aside(f"probe:{secrets.token_hex(8)}")
        self.call("SET", key, b"", "PX", _PROBE_MS)
        try:
            return bool(other.call("EXISTS", key))
        finally:
            self.call("DEL", key)
