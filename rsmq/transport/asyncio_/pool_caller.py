"""
The caller of the asyncio client that uses the pool of a client of redis-py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from redis.exceptions import AskError, NoScriptError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from rsmq.operations.confirmation import (
    DISK_COMMANDS,
    can_be_confirmed,
    check_disk,
    missing_copies,
    raise_unconfirmed,
    wait_command,
)
from rsmq.operations.operation import Command, Operation, RetryClass
from rsmq.transport.asyncio_.attempts import RetryingCaller
from rsmq.transport.asyncio_.cancellation import CancellationGuard, call_or_undo, read_reply
from rsmq.transport.asyncio_.multiplexed import (
    make_data_check,
)
from rsmq.transport.body_limit import LIMIT_COMMAND, body_limit
from rsmq.transport.commands import (
    call_commands,
    eval_command,
    evalsha_command,
    many_commands,
    reply_of,
    script_reply,
)
from rsmq.transport.confirmation import CONNECTION_BROKE, demotion_error, longest_wait
from rsmq.transport.failure_texts import describe_server
from rsmq.transport.origin import Origin
from rsmq.transport.redis_py import socket_of_asyncio, timeout_of_connections
from rsmq.transport.retry import (
    Failure,
    classify,
)
from rsmq.transport.socket import pack_all
from rsmq.transport.topology.address import Address
from rsmq.wire.limits import ACCEPTED_BODY_BYTES, check_body_size

T = TypeVar("T")


class AsyncPoolCaller(RetryingCaller):
    """A caller that uses the pool of a handed-in client, with one connection for each attempt."""

    def __init__(self, pool: Any, origin: Origin) -> None:
        options = pool.connection_kwargs
        timeout = timeout_of_connections(pool.connection_class, options)
        super().__init__(origin, options, timeout)
        self._pool = pool
        self._longest_wait = longest_wait(timeout)
        self._has_disk_checked = False
        self._body_limit = ACCEPTED_BODY_BYTES  # of the server, as far as it is known

    async def close(self) -> None:
        """Do nothing: the program that created the pool closes it."""

    def describe(self) -> str:
        return describe_server(self._pool)

    async def tracking_pool(self, key: bytes, address: Address | None = None) -> Any:  # noqa: ARG002
        return self._pool

    def note_lost(self, key: bytes, error: BaseException) -> None:
        """Do nothing: there is only one server to connect to."""

    async def exchange(
        self,
        operation: Operation[Any],
        guard: CancellationGuard,
        *,
        check: bool,
        redirect: AskError | None = None,  # noqa: ARG002 - of a cluster
    ) -> Any:
        pool = self._pool
        connection = await pool.get_connection()
        if check and _is_unusable(connection):
            await _discard(pool, connection)
            connection = await pool.get_connection()
        is_usable = False
        missing = None
        try:
            if operation.confirmation is not None or operation.large_body:
                await self._check_server(connection, operation)
            guard.is_sent = True
            if operation.confirmation is not None:
                reply, missing = await _call_confirmed(connection, operation, self._longest_wait)
            elif operation.undo is None:
                reply = await _call(connection, operation)
            else:
                reply = await call_or_undo(
                    operation,
                    guard,
                    lambda each: _call(connection, each, guard.send, guard.read),
                )
            is_usable = missing != CONNECTION_BROKE
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
        if missing is not None and operation.confirmation is not None:
            raise_unconfirmed(operation.parse(reply), operation.confirmation, missing)
        return reply

    async def _check_server(self, connection: Any, operation: Operation[Any]) -> None:
        """Check that the server accepts a body, and is able to say what is on disk, if needed."""
        if operation.large_body > self._body_limit:
            self._body_limit = body_limit((await _transact(connection, [LIMIT_COMMAND]))[0])
            check_body_size(operation.large_body, self._body_limit)
        confirmation = operation.confirmation
        if confirmation is not None and confirmation.fsync and not self._has_disk_checked:
            check_disk(await _transact(connection, list(DISK_COMMANDS)))
            self._has_disk_checked = True


async def _discard(pool: Any, connection: Any) -> None:
    """Close a connection that is not usable any more, and return it to its pool."""
    await connection.disconnect(nowait=True)
    await pool.release(connection)


def _is_unusable(connection: Any) -> bool:
    """
    Return whether an idle connection is unusable: closed by the server, or with unexpected data.

    The pool checks only data that the event loop has read already; this checks the socket.
    """
    return make_data_check(socket_of_asyncio(connection))()


async def _send(connection: Any, *command: Any) -> None:
    await connection.send_command(*command)


async def _transact(connection: Any, commands: Sequence[Command]) -> list[Any]:
    """Send commands together, and return their replies, errors included."""
    await connection.send_packed_command(pack_all(commands))
    return [await _read(connection) for _ in commands]


async def _read(connection: Any) -> Any:
    """Return the next reply, also if it is an error."""
    try:
        return await connection.read_response(disable_decoding=True)
    except ResponseError as error:
        return error


async def _call_confirmed(
    connection: Any, operation: Operation[Any], longest: float
) -> tuple[Any, str | None]:
    """As ``call_confirmed`` of the synchronous client."""
    confirmation = operation.confirmation
    assert confirmation is not None  # noqa: S101 - for type checkers
    loop = asyncio.get_running_loop()
    wait = wait_command(confirmation, min(confirmation.timeout, longest))
    for has_script in (False, True):
        commands = call_commands(operation, is_asking=False, with_script=has_script)
        await connection.send_packed_command(pack_all([*commands, wait]))
        replies = [await _read(connection) for _ in commands]
        until = loop.time() + confirmation.timeout
        if not isinstance(replies[0], NoScriptError):
            break
        await _read(connection)
    try:
        confirmed = await _read(connection)
        reply = script_reply(replies)
        while can_be_confirmed(confirmation, confirmed) and (left := until - loop.time()) > 0:
            wait = wait_command(confirmation, min(left, longest))
            confirmed = (await _transact(connection, [wait]))[0]
    except (RedisConnectionError, RedisTimeoutError):
        if operation.retry is not RetryClass.NEVER:
            raise
        return script_reply(replies), CONNECTION_BROKE
    if error := demotion_error(operation, confirmed):
        raise error
    return reply, missing_copies(confirmation, confirmed)


async def _call(
    connection: Any,
    operation: Operation[Any],
    send: Callable[..., Awaitable[None]] = _send,
    read: Callable[[Any], Awaitable[Any]] = read_reply,
) -> Any:
    if operation.commands is not None:
        return reply_of(operation, await _transact(connection, many_commands(operation)))
    await send(connection, *evalsha_command(operation))
    try:
        return await read(connection)
    except NoScriptError:
        await send(connection, *eval_command(operation))
        return await read(connection)
