"""
The caller of the asyncio client for one server: one connection for all calls of an event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from redis.exceptions import AskError, NoScriptError, RedisError, ResponseError

from rsmq.errors import ClientClosed, NotPossible, RSMQError
from rsmq.operations.confirmation import Confirm, raise_unconfirmed
from rsmq.operations.operation import Operation, RetryClass
from rsmq.transport.asyncio_.attempts import RetryingCaller, SentCall
from rsmq.transport.asyncio_.cancellation import CancellationGuard, call_or_undo
from rsmq.transport.asyncio_.group_commit import GroupCommit
from rsmq.transport.asyncio_.multiplexed import (
    ConnectionState,
    MultiplexedConnection,
    ReconnectingConnection,
)
from rsmq.transport.asyncio_.requests import CallRequest, NotSent, Request
from rsmq.transport.body_limit import LIMIT_COMMAND, OwnConnections, body_limit
from rsmq.transport.commands import (
    asking_commands,
    eval_command,
    evalsha_command,
    many_commands,
    needs_asking,
    reply_of,
    script_reply,
)
from rsmq.transport.failure_texts import describe_server
from rsmq.transport.origin import Origin
from rsmq.transport.redis_py import timeout_of_connections
from rsmq.transport.retry import Failure, classify
from rsmq.transport.topology.group import ServerPool
from rsmq.wire.limits import ACCEPTED_BODY_BYTES, check_body_size

T = TypeVar("T")

_ALWAYS = RetryClass.ALWAYS  # saves the lookup of an attribute in each call


class AsyncMultiplexedCaller(RetryingCaller):
    """
    A caller with one connection for each event loop, which all calls of the loop share.

    A connection belongs to the loop in which it was opened. It is opened for the first call in that
    loop.
    """

    def __init__(self, pool: ServerPool, origin: Origin) -> None:
        options = pool.connection_kwargs
        super().__init__(origin, options, timeout_of_connections(pool.connection_class, options))
        self._pool = pool
        self._loop_connections: dict[asyncio.AbstractEventLoop, ReconnectingConnection] = {}
        self._loop_commits: dict[asyncio.AbstractEventLoop, GroupCommit] = {}
        self._loop_owns: dict[asyncio.AbstractEventLoop, OwnConnections] = {}
        self._body_limit = ACCEPTED_BODY_BYTES  # of the server, as far as it is known
        self._closed = False
        self._late_undos: set[asyncio.Task[None]] = set()

    def describe(self) -> str:
        return describe_server(self._pool)

    async def tracking_pool(self, key: bytes) -> Any:  # noqa: ARG002
        return self._pool

    def note_lost(self, key: bytes, error: BaseException) -> None:
        """Do nothing: there is only one server to connect to."""

    async def close(self) -> None:
        """
        Close the connection of each loop, at the latest after INTERRUPTION_GRACE_SECONDS.

        Running calls may end before that. The others raise ClientClosed; they may have run.
        """
        self._closed = True
        running = asyncio.get_running_loop()
        # A copy, because loops of other threads may be added meanwhile; list() is atomic.
        for connections in self._by_loop():
            for loop in list(connections):
                connection = connections.pop(loop, None)
                if connection is not None and loop is running:
                    await connection.close()
                elif connection is not None:
                    with suppress(RuntimeError):  # the loop is closed, and with it its connection
                        loop.call_soon_threadsafe(connection.start_closing)

    def _by_loop(self) -> Iterator[dict[asyncio.AbstractEventLoop, Any]]:
        """Return the three kinds of connections, each by loop."""
        yield self._loop_connections
        yield self._loop_commits
        yield self._loop_owns

    def retire(self) -> None:
        """Close the connections of each loop when their calls have ended. New calls open others."""
        for connections in self._by_loop():
            for loop, connection in list(connections.items()):
                with suppress(RuntimeError):  # the loop is closed, and with it its connection
                    loop.call_soon_threadsafe(connection.retire)

    async def exchange(
        self,
        operation: Operation[Any],
        guard: CancellationGuard,
        *,
        check: bool,
        redirect: AskError | None = None,
        sent: SentCall | None = None,
        own: Any = None,
    ) -> Any:
        """See RetryingCaller; ``own`` is the connection of a call that has one of its own."""
        if sent is not None:
            return await self._exchange_on(sent.connection, operation, guard, sent.request)
        if (operation.large_body or operation.reply_timeout) and own is None:
            return await self._exchange_alone(operation, guard, redirect)
        if operation.confirmation is not None:
            return await self._commit(operation, operation.confirmation, guard, redirect, own)
        reconnecting = (
            own
            or self._loop_connections.get(asyncio.get_running_loop())
            or self._create_loop_connection()
        )
        connection = reconnecting.get_open(check=check) or await reconnecting.get(check=check)
        return await self._exchange_on(connection, operation, guard, redirect=redirect)

    async def _exchange_on(
        self,
        connection: MultiplexedConnection,
        operation: Operation[Any],
        guard: CancellationGuard,
        first: CallRequest | None = None,
        redirect: AskError | None = None,
    ) -> Any:
        """Send an operation on a connection, unless it was sent with ``first``."""
        connection.calls += 1
        guard.is_sent = True
        try:
            if first is not None:
                return await self._finish(connection, operation, guard, first)
            if guard.is_first_attempt and operation.commands is None:
                return await self._call_first(connection, operation, guard)
            call = _call_asking if needs_asking(redirect) else _call_multiplexed
            if operation.undo is None:
                return await call(connection, operation, Request.wait)
            return await call_or_undo(
                operation,
                guard,
                lambda each: call(connection, each, guard.wait),
                lambda request: self._undo_later(operation, request),
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
            if connection.state is not ConnectionState.OPEN:
                connection.close_if_unused()

    def open_connection(self, operation: Operation[Any]) -> MultiplexedConnection | None:
        if (
            operation.commands is not None
            or operation.confirmation is not None
            or operation.large_body
            or operation.reply_timeout is not None
        ):
            return None
        reconnecting = self._loop_connections.get(asyncio.get_running_loop())
        if reconnecting is None:
            return None
        # As needs_check, without a function call.
        check = operation.parse_retried is not None or operation.retry is not _ALWAYS
        return reconnecting.get_open(check=check)

    async def _call_first(
        self, connection: MultiplexedConnection, operation: Operation[Any], guard: CancellationGuard
    ) -> Any:
        """Make the first attempt of a call, which may be sent in a batch with others."""
        first = connection.send_call(operation)
        try:
            await first.future
        except asyncio.CancelledError as cancellation:
            if operation.undo is None:
                raise
            guard.request = first
            guard.note_cancellation(cancellation)
        else:
            if not isinstance(first.replies[0], Exception):  # nearly always
                connection.loaded.add(operation.script.name)
                return first.replies[0]
        return await self._finish(connection, operation, guard, first)

    async def _finish(
        self,
        connection: MultiplexedConnection,
        operation: Operation[Any],
        guard: CancellationGuard,
        first: CallRequest,
    ) -> Any:
        """Return the reply of a first attempt that was sent, or undo it after a cancellation."""

        def call(each: Operation[Any]) -> Awaitable[Any]:
            if each is operation:
                return _script_reply(connection, each, first, guard.wait)
            return _call_multiplexed(connection, each, guard.wait)

        if operation.undo is None:
            return await _script_reply(connection, operation, first, Request.wait)
        return await call_or_undo(
            operation, guard, call, lambda request: self._undo_later(operation, request)
        )

    def _undo_later(self, operation: Operation[Any], request: Request) -> None:
        """Undo an operation when its reply comes, if it comes on this connection."""

        async def undo() -> None:
            with suppress(RedisError, OSError, RSMQError):
                await self._undo(operation, reply_of(operation, await request.wait()))

        task = asyncio.ensure_future(undo())
        self._late_undos.add(task)
        task.add_done_callback(self._late_undos.discard)

    async def _exchange_alone(
        self, operation: Operation[Any], guard: CancellationGuard, redirect: AskError | None
    ) -> Any:
        """Send an operation with a large body, or that takes long, on a connection of its own."""
        loop = asyncio.get_running_loop()
        if operation.large_body > self._body_limit:  # it may have been raised since it was read
            shared = self._loop_connections.get(loop) or self._create_loop_connection()
            connection = await shared.get(check=True)
            self._body_limit = await _read_body_limit(connection)
            check_body_size(operation.large_body, self._body_limit)
        elif self._closed:
            raise ClientClosed
        pool = self._pool
        if operation.reply_timeout is not None:
            options = {**pool.connection_kwargs, "socket_timeout": operation.reply_timeout}
            pool = replace(pool, connection_kwargs=options)
        kind = ReconnectingConnection if operation.confirmation is None else GroupCommit
        with self._loop_owns.setdefault(loop, OwnConnections()).add(kind(pool)) as own:
            return await self.exchange(operation, guard, check=False, redirect=redirect, own=own)

    async def _commit(
        self,
        operation: Operation[Any],
        confirmation: Confirm,
        guard: CancellationGuard,
        redirect: AskError | None,
        own: GroupCommit | None,
    ) -> Any:
        """Send an operation on the connection of calls that wait for replicas."""
        if self._closed:
            raise ClientClosed
        loop = asyncio.get_running_loop()
        commit = own or self._loop_commits.get(loop)
        if commit is None:
            self._forget_closed_loops()
            commit = self._loop_commits[loop] = GroupCommit(self._pool)
        guard.is_sent = True
        try:
            reply, missing = await commit.call(
                operation, confirmation, is_asking=needs_asking(redirect)
            )
        except (NotSent, NotPossible):
            guard.is_sent = False
            raise
        except ResponseError as error:
            # As in exchange.
            if classify(error, is_sent=True) is Failure.NOTHING_RAN:
                commit.retire()
            raise
        if missing is not None:
            raise_unconfirmed(operation.parse(reply), confirmation, missing)
        return reply

    def _forget_closed_loops(self) -> None:
        for loops in self._by_loop():
            for other in list(loops):
                if other.is_closed():
                    loops.pop(other, None)

    def _create_loop_connection(self) -> ReconnectingConnection:
        if self._closed:
            raise ClientClosed
        self._forget_closed_loops()
        return self._loop_connections.setdefault(
            asyncio.get_running_loop(), ReconnectingConnection(self._pool)
        )


async def _read_body_limit(connection: MultiplexedConnection) -> int:
    (reply,) = await connection.send((LIMIT_COMMAND,)).wait()
    return body_limit(reply)


async def _call_multiplexed(
    connection: MultiplexedConnection,
    operation: Operation[Any],
    wait: Callable[[Request], Awaitable[list[Any]]],
) -> Any:
    if operation.commands is not None:
        return reply_of(operation, await wait(connection.send(many_commands(operation))))
    return await _script_reply(
        connection, operation, connection.send((evalsha_command(operation),)), wait
    )


async def _script_reply(
    connection: MultiplexedConnection,
    operation: Operation[Any],
    request: Request,
    wait: Callable[[Request], Awaitable[list[Any]]],
) -> Any:
    """Return the reply of a script whose hash was sent; send its text if the server needs it."""
    replies = await wait(request)
    if isinstance(replies[0], NoScriptError):
        replies = await wait(connection.send((eval_command(operation),)))
    reply = script_reply(replies)
    connection.loaded.add(operation.script.name)
    return reply


async def _call_asking(
    connection: MultiplexedConnection,
    operation: Operation[Any],
    wait: Callable[[Request], Awaitable[list[Any]]],
) -> Any:
    """Call a node of Redis Cluster that a slot is moving to."""
    return reply_of(operation, await wait(connection.send(asking_commands(operation))))
