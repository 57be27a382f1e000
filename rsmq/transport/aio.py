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

from rsmq.errors import ClientClosed, InvalidFormat, RSMQError
from rsmq.operations.operation import Operation
from rsmq.transport.cancellation import Persistent, call_or_undo, read_reply
from rsmq.transport.commands import call_by_name, call_by_text, last_of, transaction
from rsmq.transport.multiplexed import Line, NotSent, Pipeline, Request, State, is_readable
from rsmq.transport.pools import checked_pool, without_retries
from rsmq.transport.redis_py import socket_of_asyncio
from rsmq.transport.retry import (
    Attempt,
    Failure,
    classify,
    explain,
    needs_check,
    retries,
)
from rsmq.wire.keys import Namespace, require_hash_tag

T = TypeVar("T")


class AsyncCaller(Protocol):
    """Runs operations on one server."""

    async def run(self, operation: Operation[T]) -> T:
        """Send the operation, and return what its reply means."""

    async def close(self) -> None:
        """Close the connections that this object opened."""

    def watched_pool(self) -> Any:
        """Where a connection that tracks keys can be made; None if nowhere."""


class _RetryingCaller(ABC):
    """What the callers of single servers have in common."""

    def __init__(self, retry_deadline: float) -> None:
        self._retry_deadline = retry_deadline

    @abstractmethod
    async def _exchange(
        self, operation: Operation[Any], persistent: Persistent, *, check: bool
    ) -> Any:
        """The reply; an operation that gives back has done so if this raises a cancellation."""

    async def run(self, operation: Operation[T]) -> T:
        persistent = Persistent()
        try:
            return await self._attempt(operation, operation.parse, persistent)
        except (RedisError, OSError) as error:
            failure = error
        try:
            return await self._run_again(operation, failure, persistent)
        finally:
            del failure  # as it keeps this frame, the frame would keep it

    async def _run_again(
        self, operation: Operation[T], error: Exception, persistent: Persistent
    ) -> T:
        deadline = self._retry_deadline
        steps = retries(operation, error, sent=persistent.sent, deadline=deadline)
        step = None
        try:
            while True:
                if persistent.cancelled is not None:
                    raise persistent.cancelled
                step = next(steps) if not isinstance(step, Attempt) else steps.throw(error)
                if not isinstance(step, Attempt):
                    await asyncio.sleep(step)
                    continue
                persistent.sent = False
                try:
                    return await self._attempt(step.operation, step.parse, persistent)
                except (RedisError, OSError) as failure:
                    error = failure
                step.sent = persistent.sent
        finally:
            del error  # as in run

    async def _attempt(
        self, operation: Operation[T], parse: Callable[[Any], T], persistent: Persistent
    ) -> T:
        reply = await self._exchange(operation, persistent, check=needs_check(operation))
        persistent.look_for_what_was_swallowed()
        if persistent.cancelled is not None:
            # It came after the reply, while the connection went back to its pool.
            await self._undo(operation, reply)
            raise persistent.cancelled
        return parse(reply)

    async def _undo(self, operation: Operation[T], reply: Any) -> None:
        undo = operation.undo and operation.undo(operation.parse(reply))
        if undo:
            with suppress(RedisError, OSError, RSMQError):
                await self.run(undo)


class AsyncOwnCaller(_RetryingCaller):
    """
    Runs operations over connections of our own: one an event loop, which all calls share.

    It is made when first needed: a connection belongs to the loop that it began in.
    """

    def __init__(self, pool: Any, retry_deadline: float) -> None:
        super().__init__(retry_deadline)
        self._pool = pool
        self._lines: dict[asyncio.AbstractEventLoop, Line] = {}
        self._closed = False

    def watched_pool(self) -> Any:
        return self._pool

    async def close(self) -> None:
        """
        Close the connection of each loop, at the latest after INTERRUPTED_SECONDS seconds.

        Calls under way may end before that. The others raise ClientClosed; they may have run.
        """
        self._closed = True
        running = asyncio.get_running_loop()
        for loop in list(self._lines):  # one step, for loops of other threads come meanwhile
            line = self._lines.pop(loop, None)
            if line is not None and loop is running:
                await line.close()
            elif line is not None:
                with suppress(RuntimeError):  # that loop is closed, and its connection with it
                    loop.call_soon_threadsafe(line.end)

    async def _exchange(
        self, operation: Operation[Any], persistent: Persistent, *, check: bool
    ) -> Any:
        line = self._lines.get(asyncio.get_running_loop())
        pipeline = await (line or self._new_line()).get(check=check)
        pipeline.calls += 1
        persistent.sent = True
        try:
            if operation.undo is None:
                return await _call_over(pipeline, operation, Request.wait)
            return await call_or_undo(
                operation, persistent, lambda each: _call_over(pipeline, each, persistent.wait)
            )
        except NotSent:
            persistent.sent = False
            raise
        except ResponseError as error:
            # A server that refuses all, as one that was demoted, is looked up anew.
            if classify(error, sent=True) is Failure.NOTHING_RAN:
                pipeline.retire()
            raise
        finally:
            pipeline.calls -= 1
            if pipeline.state is not State.OPEN:
                pipeline.close_if_unused()

    def _new_line(self) -> Line:
        if self._closed:
            raise ClientClosed
        for other in list(self._lines):
            if other.is_closed():
                self._lines.pop(other, None)
        return self._lines.setdefault(asyncio.get_running_loop(), Line(self._pool))


class AsyncPoolCaller(_RetryingCaller):
    """Runs operations over connections of a pool that somebody else made, one a call."""

    def __init__(self, pool: Any, retry_deadline: float) -> None:
        super().__init__(retry_deadline)
        self._pool = pool

    async def close(self) -> None:
        """Nothing: whoever made the pool closes it."""

    def watched_pool(self) -> Any:
        return self._pool

    async def _exchange(
        self, operation: Operation[Any], persistent: Persistent, *, check: bool
    ) -> Any:
        pool = self._pool
        connection = await pool.get_connection()
        if check and _has_data(connection):
            await _give_up(pool, connection)
            connection = await pool.get_connection()
        persistent.sent = True
        usable = False
        try:
            if operation.undo is None:
                reply = await _call(connection, operation)
            else:
                reply = await call_or_undo(
                    operation,
                    persistent,
                    lambda each: _call(connection, each, persistent.send, persistent.read),
                )
            usable = True
        except ResponseError as error:
            # As above.
            usable = classify(error, sent=True) is not Failure.NOTHING_RAN
            raise
        except asyncio.CancelledError:
            usable = persistent.done
            raise
        finally:
            if not usable:
                await _give_up(pool, connection)
            elif operation.undo is None:
                await pool.release(connection)
            else:
                # Cancelled while it waits for the pool's lock, it would lose what was received.
                await persistent.finish(lambda: pool.release(connection))
        return reply


class AsyncClusterCaller:
    """Runs operations on a Redis Cluster; redis-py finds the nodes, and repeats by its rules."""

    def __init__(self, client: RedisCluster) -> None:
        self._client: Any = client

    async def run(self, operation: Operation[T]) -> T:
        if operation.fallback:
            return await self.run(operation.fallback)
        try:
            if operation.undo is None:
                reply = await self._execute(operation)
            else:
                persistent = Persistent()
                reply = await call_or_undo(
                    operation,
                    persistent,
                    lambda each: persistent.finish_task(self._execute(each)),
                )
        except ResponseError as error:
            ours = explain(error, operation.queues)
            if ours is not None:
                raise ours from None
            raise
        return operation.parse(reply)

    async def close(self) -> None:
        """Nothing: whoever made the client closes it."""

    def watched_pool(self) -> Any:
        """None: which node has the keys may change while somebody waits."""

    async def _execute(self, operation: Operation[Any]) -> Any:
        try:
            return await self._send(call_by_name(operation))
        except NoScriptError:
            return await self._send(call_by_text(operation))

    async def _send(self, command: tuple[bytes, ...]) -> Any:
        # redis-py looks for the command's name, and for the number of keys, as text.
        name, script, count, *rest = command
        return await self._client.execute_command(
            name.decode(), script, int(count), *rest, NEVER_DECODE=True
        )


def async_caller_of(client: object, namespace: Namespace, retry_deadline: float) -> AsyncCaller:
    """
    The way to run operations over a client that somebody else made and will close.

    Raises:
        InvalidFormat: it is not an asyncio client of redis-py, or it is one of a Redis Cluster
            and the namespace has no hash tag.
    """
    if isinstance(client, RedisCluster):
        require_hash_tag(namespace)
        return AsyncClusterCaller(client)
    if isinstance(client, redis.asyncio.Redis) and not isinstance(
        client, redis.asyncio.client.Pipeline
    ):
        return AsyncPoolCaller(client.connection_pool, retry_deadline)
    raise InvalidFormat(
        "client",
        value=type(client).__name__,
        hint="AsyncRSMQ takes a redis.asyncio.Redis or redis.asyncio.RedisCluster, not "
        f"{type(client).__name__}; RSMQ takes the clients of redis.",
    )


def open_async_caller(url: str, retry_deadline: float, options: dict[str, Any]) -> AsyncCaller:
    """
    The way to run operations over connections of our own.

    Raises:
        InvalidFormat: redis-py refuses the URL or an option.
    """
    known = without_retries(options, RedisRetry(NoBackoff(), 0))

    pool = checked_pool(url, lambda: redis.asyncio.Redis.from_url(url, **known).connection_pool)
    return AsyncOwnCaller(pool, retry_deadline)


async def _give_up(pool: Any, connection: Any) -> None:
    """Close a connection that is of no more use, and tell the pool."""
    await connection.disconnect(nowait=True)
    await pool.release(connection)


def _has_data(connection: Any) -> bool:
    """
    Whether an idle connection is of no more use: closed by the server, or out of step.

    The pool knows only what the event loop has read so far; the socket may know more.
    """
    return is_readable(socket_of_asyncio(connection))


async def _send(connection: Any, *command: Any) -> None:
    await connection.send_command(*command)


async def _call_over(
    pipeline: Pipeline,
    operation: Operation[Any],
    wait: Callable[[Request], Awaitable[list[Any]]],
) -> Any:
    if operation.prelude is not None:
        return last_of(await wait(pipeline.send(transaction(operation))))
    replies = await wait(pipeline.send((call_by_name(operation),)))
    if isinstance(replies[0], NoScriptError):
        replies = await wait(pipeline.send((call_by_text(operation),)))
    return last_of(replies)


async def _transact(connection: Any, operation: Operation[Any]) -> Any:
    commands = transaction(operation)
    await connection.send_packed_command(connection.pack_commands(commands))
    replies = []
    for _ in commands:
        try:
            replies.append(await connection.read_response(disable_decoding=True))
        except ResponseError as error:
            replies.append(error)
    return last_of(replies)


async def _call(
    connection: Any,
    operation: Operation[Any],
    send: Callable[..., Awaitable[None]] = _send,
    read: Callable[[Any], Awaitable[Any]] = read_reply,
) -> Any:
    if operation.prelude is not None:
        return await _transact(connection, operation)
    await send(connection, *call_by_name(operation))
    try:
        return await read(connection)
    except NoScriptError:
        await send(connection, *call_by_text(operation))
        return await read(connection)
