"""
Runs an operation on Redis, for the asyncio client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

import redis.asyncio
from redis.exceptions import AskError, RedisError

from rsmq.errors import NotReplicated
from rsmq.operations.operation import Operation
from rsmq.transport.asyncio_.attempts import RetryingCaller, SentCall
from rsmq.transport.asyncio_.cancellation import CancellationGuard
from rsmq.transport.asyncio_.multiplexed import MultiplexedConnection
from rsmq.transport.asyncio_.multiplexed_caller import AsyncMultiplexedCaller
from rsmq.transport.asyncio_.router import AsyncServerRouter
from rsmq.transport.commands import routing_key
from rsmq.transport.origin import Origin
from rsmq.transport.redis_py import timeout_of_connections
from rsmq.transport.servers import origin_of_client, origin_of_url, owner_of_connections
from rsmq.transport.sharing import Sharing
from rsmq.transport.topology.address import Address
from rsmq.transport.topology.group import ServerGroup
from rsmq.wire.keys import Namespace

T = TypeVar("T")


class AsyncCaller(Protocol):
    """
    An object that runs operations on one server or cluster.

    Attributes:
        origin: how it reaches them.
        server_options: the options of connections to one server; None if there are several.
    """

    origin: Origin
    server_options: Mapping[str, Any] | None

    async def run(self, operation: Operation[T]) -> T:
        """Send the operation, retry it if its retry class permits that, and return its result."""

    async def close(self) -> None:
        """Close the connections that this object opened."""

    async def tracking_pool(self, key: bytes) -> Any:
        """
        Return the class and the options of a connection that tracks keys, as a pool has them.

        Args:
            key: one of the keys; the connection is for the server that has it.

        Raises:
            RedisError, OSError: no server could say which one it is.
        """

    def address_of(self, key: bytes) -> Address | None:
        """Return the server that has a key, as far as it is known; None if there is only one."""

    def note_lost(self, key: bytes, error: BaseException) -> None:
        """Note that a connection of ``tracking_pool`` was lost, or that its server refused."""


class AsyncRoutedCaller(RetryingCaller):
    """A caller for several servers: each call goes to the one that has its keys."""

    follows_redirects = True

    def __init__(self, group: ServerGroup, origin: Origin) -> None:
        super().__init__(
            origin, None, timeout_of_connections(group.connection_class, group.options)
        )
        self._router = AsyncServerRouter(group, lambda pool: AsyncMultiplexedCaller(pool, origin))

    def describe(self) -> str:
        return self._router.describe()

    async def tracking_pool(self, key: bytes) -> Any:
        _, server = await self._router.server_of(key)
        return await server.tracking_pool(key)

    def address_of(self, key: bytes) -> Address | None:
        return self._router.topology.address_of(key)

    def note_lost(self, key: bytes, error: BaseException) -> None:
        self._router.note_lost(key, error)

    async def close(self) -> None:
        await self._router.close()

    def retire(self) -> None:
        """Close the connections when their calls have ended; see ``AsyncMultiplexedCaller``."""
        self._router.retire()

    async def exchange(
        self,
        operation: Operation[Any],
        guard: CancellationGuard,
        *,
        check: bool,
        redirect: AskError | None = None,
        sent: SentCall | None = None,  # noqa: ARG002 - there is no open_connection
    ) -> Any:
        if redirect is None:
            address, server = await self._router.server_of(routing_key(operation))
        else:
            address, server = self._router.redirected(redirect)
        try:
            return await server.exchange(operation, guard, check=check, redirect=redirect)
        except (RedisError, OSError, NotReplicated) as error:
            self._router.topology.note_failure(error, address)
            raise


class AsyncSharedCaller(RetryingCaller):
    """A caller on the connections of all callers around one client of redis-py."""

    def __init__(self, origin: Origin, owner: object) -> None:
        self._shared, self._leave = _shared_callers.join(owner, lambda: _make_caller(origin))
        super().__init__(origin, self._shared.server_options, self._shared.timeout)
        self.follows_redirects = self._shared.follows_redirects

    def describe(self) -> str:
        return self._shared.describe()

    async def tracking_pool(self, key: bytes) -> Any:
        return await self._shared.tracking_pool(key)

    def address_of(self, key: bytes) -> Address | None:
        return self._shared.address_of(key)

    def note_lost(self, key: bytes, error: BaseException) -> None:
        self._shared.note_lost(key, error)

    async def close(self) -> None:
        if self._leave():
            await self._shared.close()

    async def exchange(
        self,
        operation: Operation[Any],
        guard: CancellationGuard,
        *,
        check: bool,
        redirect: AskError | None = None,
        sent: SentCall | None = None,
    ) -> Any:
        return await self._shared.exchange(
            operation, guard, check=check, redirect=redirect, sent=sent
        )

    def open_connection(self, operation: Operation[Any]) -> MultiplexedConnection | None:
        return self._shared.open_connection(operation)


# The event loop refers to the connections that it watches, so they would stay open until it ends.
_shared_callers: Sharing[AsyncMultiplexedCaller | AsyncRoutedCaller] = Sharing(
    lambda caller: caller.retire()
)


def async_caller_from_client(
    client: object, namespace: Namespace, retry_deadline: float | None
) -> AsyncCaller:
    """
    Return a caller with connections as those of a client of redis-py, which sends nothing itself.

    Args:
        client: the asyncio client, or an Origin with asyncio connections.
        namespace: the namespace of the queues.
        retry_deadline: seconds for retries; None is the default.

    Raises:
        InvalidFormat: the client is not an asyncio client of redis-py, or it is a RedisCluster and
            the namespace has no hash tag.
    """
    if isinstance(client, Origin):
        return _make_caller(client)
    origin = origin_of_client(redis.asyncio, client, namespace, retry_deadline, _suggest_client)
    owner = owner_of_connections(client, origin.servers)
    return _make_caller(origin) if owner is None else AsyncSharedCaller(origin, owner)


def _suggest_client(client: object) -> str:
    if isinstance(client, str):
        return "A URL goes to from_url: AsyncRSMQ.from_url('redis://127.0.0.1:6379/0')."
    if isinstance(client, redis.Redis | redis.RedisCluster):
        return "Use RSMQ for clients of redis, or pass a client of redis.asyncio."
    return "Pass a redis.asyncio.Redis or redis.asyncio.RedisCluster, or use AsyncRSMQ.from_url."


def async_caller_from_url(
    url: str, namespace: Namespace, retry_deadline: float | None, options: dict[str, Any]
) -> AsyncCaller:
    """Return a caller with connections of its own, opened when needed; see ``origin_of_url``."""
    return _make_caller(origin_of_url(redis.asyncio, url, namespace, retry_deadline, options))


def _make_caller(origin: Origin) -> AsyncMultiplexedCaller | AsyncRoutedCaller:
    if isinstance(origin.servers, ServerGroup):
        return AsyncRoutedCaller(origin.servers, origin)
    return AsyncMultiplexedCaller(origin.servers, origin)
