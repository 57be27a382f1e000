"""
Runs an operation on Redis, for the asyncio client.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import redis.asyncio
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.retry import Retry as RedisRetry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError, ResponseError

from rsmq.errors import ClientClosed, InvalidFormat, RSMQError, show_type
from rsmq.operations.operation import Operation
from rsmq.transport.cancellation import CancellationGuard, call_or_undo, read_reply
from rsmq.transport.commands import (
    eval_command,
    evalsha_command,
    script_reply,
    transaction_commands,
)
from rsmq.transport.failure_texts import describe_address
from rsmq.transport.multiplexed import (
    MultiplexedConnection,
    NotSent,
    ReconnectingConnection,
    Request,
    State,
    is_readable,
)
from rsmq.transport.origin import Origin
from rsmq.transport.pools import add_default_options, create_pool
from rsmq.transport.redis_py import socket_of_asyncio
from rsmq.transport.retry import (
    Attempt,
    Failure,
    classify,
    convert_error,
    needs_check,
    plan_retries,
)
from rsmq.wire.keys import Namespace, require_hash_tag

T = TypeVar("T")


class AsyncCaller(Protocol):
    """
    An object that runs operations on one server or cluster.

    Attributes:
        origin: how it reaches them.
    """

    origin: Origin

    async def run(self, operation: Operation[T]) -> T:
        """Send the operation, retry it if its retry class permits that, and return its result."""

    async def close(self) -> None:
        """Close the connections that this object opened."""

    def tracking_pool(self) -> Any:
        """Return the connection pool for connections that track keys; None if they can't."""


class _RetryingCaller(ABC):
    """The base class of callers for one server: makes attempts, and undoes cancelled receives."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self._retry_deadline = origin.retry_deadline

    @abstractmethod
    def tracking_pool(self) -> Any:
        """Return the connection pool, also for connections that track keys."""

    @abstractmethod
    async def _exchange(
        self, operation: Operation[Any], guard: CancellationGuard, *, check: bool
    ) -> Any:
        """
        Send an operation once, and return its reply.

        Raises:
            CancelledError: the call was cancelled; an operation with ``undo`` is undone.
        """

    async def run(self, operation: Operation[T]) -> T:
        guard = CancellationGuard()
        try:
            return await self._attempt(operation, operation.parse, guard)
        except (RedisError, OSError) as error:
            failure = error
        try:
            return await self._run_again(operation, failure, guard)
        finally:
            del failure  # its traceback refers to this frame: a reference cycle

    async def _run_again(
        self, operation: Operation[T], error: Exception, guard: CancellationGuard
    ) -> T:
        steps = plan_retries(
            operation,
            error,
            is_sent=guard.is_sent,
            deadline=self._retry_deadline,
            address=lambda: describe_address(self.tracking_pool().connection_kwargs),
        )
        step = None
        try:
            while True:
                if guard.cancellation is not None:
                    raise guard.cancellation
                step = next(steps) if not isinstance(step, Attempt) else steps.throw(error)
                if not isinstance(step, Attempt):
                    await asyncio.sleep(step)
                    continue
                guard.is_sent = False
                try:
                    return await self._attempt(step.operation, step.parse, guard)
                except (RedisError, OSError) as failure:
                    error = failure
                step.is_sent = guard.is_sent
        finally:
            del error  # as in run

    async def _attempt(
        self, operation: Operation[T], parse: Callable[[Any], T], guard: CancellationGuard
    ) -> T:
        reply = await self._exchange(operation, guard, check=needs_check(operation))
        guard.detect_swallowed_cancellation()
        if guard.cancellation is not None:
            # The cancellation came after the reply, while the connection was released.
            await self._undo(operation, reply)
            raise guard.cancellation
        return parse(reply)

    async def _undo(self, operation: Operation[T], reply: Any) -> None:
        undo = operation.undo and operation.undo(operation.parse(reply))
        if undo:
            with suppress(RedisError, OSError, RSMQError):
                await self.run(undo)


class AsyncMultiplexedCaller(_RetryingCaller):
    """
    A caller with one connection for each event loop, which all calls of the loop share.

    A connection belongs to the loop in which it was opened. It is opened for the first call in that
    loop.
    """

    def __init__(self, pool: Any, origin: Origin) -> None:
        super().__init__(origin)
        self._pool = pool
        self._loop_connections: dict[asyncio.AbstractEventLoop, ReconnectingConnection] = {}
        self._closed = False

    def tracking_pool(self) -> Any:
        return self._pool

    async def close(self) -> None:
        """
        Close the connection of each loop, at the latest after INTERRUPTION_GRACE_SECONDS.

        Running calls may end before that. The others raise ClientClosed; they may have run.
        """
        self._closed = True
        running = asyncio.get_running_loop()
        # A copy, because loops of other threads may be added meanwhile; list() is atomic.
        for loop in list(self._loop_connections):
            connection = self._loop_connections.pop(loop, None)
            if connection is not None and loop is running:
                await connection.close()
            elif connection is not None:
                with suppress(RuntimeError):  # the loop is closed, and with it its connection
                    loop.call_soon_threadsafe(connection.start_closing)

    async def _exchange(
        self, operation: Operation[Any], guard: CancellationGuard, *, check: bool
    ) -> Any:
        loop_connection = self._loop_connections.get(asyncio.get_running_loop())
        connection = await (loop_connection or self._create_loop_connection()).get(check=check)
        connection.calls += 1
        guard.is_sent = True
        try:
            if operation.undo is None:
                return await _call_multiplexed(connection, operation, Request.wait)
            return await call_or_undo(
                operation, guard, lambda each: _call_multiplexed(connection, each, guard.wait)
            )
        except NotSent:
            guard.is_sent = False
            raise
        except ResponseError as error:
            # A server that rejects every command may have been demoted. A new connection finds the
            # current master.
            if classify(error, is_sent=True) is Failure.NOTHING_RAN:
                connection.retire()
            raise
        finally:
            connection.calls -= 1
            if connection.state is not State.OPEN:
                connection.close_if_unused()

    def _create_loop_connection(self) -> ReconnectingConnection:
        if self._closed:
            raise ClientClosed
        for other in list(self._loop_connections):
            if other.is_closed():
                self._loop_connections.pop(other, None)
        return self._loop_connections.setdefault(
            asyncio.get_running_loop(), ReconnectingConnection(self._pool)
        )


class AsyncPoolCaller(_RetryingCaller):
    """A caller that uses the pool of a handed-in client, with one connection for each attempt."""

    def __init__(self, pool: Any, origin: Origin) -> None:
        super().__init__(origin)
        self._pool = pool

    async def close(self) -> None:
        """Do nothing: the program that created the pool closes it."""

    def tracking_pool(self) -> Any:
        return self._pool

    async def _exchange(
        self, operation: Operation[Any], guard: CancellationGuard, *, check: bool
    ) -> Any:
        pool = self._pool
        connection = await pool.get_connection()
        if check and _is_unusable(connection):
            await _discard(pool, connection)
            connection = await pool.get_connection()
        guard.is_sent = True
        is_usable = False
        try:
            if operation.undo is None:
                reply = await _call(connection, operation)
            else:
                reply = await call_or_undo(
                    operation,
                    guard,
                    lambda each: _call(connection, each, guard.send, guard.read),
                )
            is_usable = True
        except ResponseError as error:
            # As in AsyncMultiplexedCaller.
            is_usable = classify(error, is_sent=True) is not Failure.NOTHING_RAN
            raise
        except asyncio.CancelledError:
            is_usable = guard.is_answered
            raise
        finally:
            if not is_usable:
                await _discard(pool, connection)
            elif operation.undo is None:
                await pool.release(connection)
            else:
                # If the release were cancelled while it waits for the lock of the pool, the
                # received messages would be lost.
                await guard.finish(lambda: pool.release(connection))
        return reply


class AsyncClusterCaller:
    """A caller for a Redis Cluster; redis-py finds the nodes, and retries by its own rules."""

    def __init__(self, client: RedisCluster, origin: Origin) -> None:
        self.origin = origin
        self._client: Any = client

    async def run(self, operation: Operation[T]) -> T:
        if operation.fallback:
            return await self.run(operation.fallback)
        try:
            if operation.undo is None:
                reply = await self._execute(operation)
            else:
                guard = CancellationGuard()
                reply = await call_or_undo(
                    operation,
                    guard,
                    lambda each: guard.finish_task(self._execute(each)),
                )
        except ResponseError as error:
            converted = convert_error(error, operation.queues)
            if converted is not None:
                raise converted from None
            raise
        return operation.parse(reply)

    async def close(self) -> None:
        """Do nothing: the program that created the client closes it."""

    def tracking_pool(self) -> Any:
        """Return None: the keys may move to another node during a waiting receive."""

    async def _execute(self, operation: Operation[Any]) -> Any:
        try:
            return await self._send(evalsha_command(operation))
        except NoScriptError:
            return await self._send(eval_command(operation))

    async def _send(self, command: tuple[bytes, ...]) -> Any:
        # To find the node, redis-py compares the name with str values and reads the number of keys.
        name, script, key_count, *arguments = command
        return await self._client.execute_command(
            name.decode(), script, int(key_count), *arguments, NEVER_DECODE=True
        )


def async_caller_from_client(
    client: object, namespace: Namespace, retry_deadline: float
) -> AsyncCaller:
    """
    Return a caller that uses an asyncio client of redis-py; it does not close the client.

    Raises:
        InvalidFormat: the client is not an asyncio client of redis-py, or it is a RedisCluster and
            the namespace has no hash tag.
    """
    origin = Origin(client=client, retry_deadline=retry_deadline)
    if isinstance(client, RedisCluster):
        require_hash_tag(namespace)
        return AsyncClusterCaller(client, origin)
    if isinstance(client, redis.asyncio.Redis) and not isinstance(
        client, redis.asyncio.client.Pipeline
    ):
        return AsyncPoolCaller(client.connection_pool, origin)
    raise InvalidFormat(
        "client",
        value=show_type(client),
        hint=_suggest_client(client),
    )


def _suggest_client(client: object) -> str:
    if isinstance(client, str):
        return "A URL goes to from_url: AsyncRSMQ.from_url('redis://127.0.0.1:6379/0')."
    if isinstance(client, redis.Redis | redis.RedisCluster):
        return "Use RSMQ for clients of redis, or pass a client of redis.asyncio."
    return "Pass a redis.asyncio.Redis or redis.asyncio.RedisCluster, or use AsyncRSMQ.from_url."


def async_caller_from_url(url: str, retry_deadline: float, options: dict[str, Any]) -> AsyncCaller:
    """
    Return a caller that opens its own connections when they are needed.

    Args:
        url: the URL of the server.
        retry_deadline: seconds for retries.
        options: options of connections for redis-py.

    Raises:
        InvalidFormat: redis-py rejects the URL or an option.
    """
    pool_options = add_default_options(options, RedisRetry(NoBackoff(), 0))

    pool = create_pool(
        url, lambda: redis.asyncio.Redis.from_url(url, **pool_options).connection_pool
    )
    return AsyncMultiplexedCaller(pool, Origin(url, options, retry_deadline=retry_deadline))


async def _discard(pool: Any, connection: Any) -> None:
    """Close a connection that is not usable any more, and return it to its pool."""
    await connection.disconnect(nowait=True)
    await pool.release(connection)


def _is_unusable(connection: Any) -> bool:
    """
    Return whether an idle connection is unusable: closed by the server, or with unexpected data.

    The pool checks only data that the event loop has read already; this checks the socket.
    """
    return is_readable(socket_of_asyncio(connection))


async def _send(connection: Any, *command: Any) -> None:
    await connection.send_command(*command)


async def _call_multiplexed(
    connection: MultiplexedConnection,
    operation: Operation[Any],
    wait: Callable[[Request], Awaitable[list[Any]]],
) -> Any:
    if operation.prelude is not None:
        return script_reply(await wait(connection.send(transaction_commands(operation))))
    replies = await wait(connection.send((evalsha_command(operation),)))
    if isinstance(replies[0], NoScriptError):
        replies = await wait(connection.send((eval_command(operation),)))
    return script_reply(replies)


async def _transact(connection: Any, operation: Operation[Any]) -> Any:
    commands = transaction_commands(operation)
    await connection.send_packed_command(connection.pack_commands(commands))
    replies = []
    for _ in commands:
        try:
            replies.append(await connection.read_response(disable_decoding=True))
        except ResponseError as error:
            replies.append(error)
    return script_reply(replies)


async def _call(
    connection: Any,
    operation: Operation[Any],
    send: Callable[..., Awaitable[None]] = _send,
    read: Callable[[Any], Awaitable[Any]] = read_reply,
) -> Any:
    if operation.prelude is not None:
        return await _transact(connection, operation)
    await send(connection, *evalsha_command(operation))
    try:
        return await read(connection)
    except NoScriptError:
        await send(connection, *eval_command(operation))
        return await read(connection)
