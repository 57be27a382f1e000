"""
Runs an operation on Redis, for the synchronous client.

Connections are acquired and used directly, below the level at which redis-py retries commands by
itself: only this module knows which operation may be retried. ``retry.py`` classifies failures.
The package ``operations`` builds the commands. ``aio.py`` does the same for asyncio.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.exceptions import NoScriptError, RedisError, ResponseError
from redis.retry import Retry as RedisRetry

from rsmq.errors import InvalidFormat, RSMQError, show_type
from rsmq.operations.operation import Operation, Retry
from rsmq.transport.commands import (
    eval_command,
    evalsha_command,
    script_reply,
    transaction_commands,
)
from rsmq.transport.failure_texts import describe_address
from rsmq.transport.origin import Origin
from rsmq.transport.pools import (
    ConnectionProvider,
    PooledConnections,
    ThreadConnections,
    add_default_options,
    create_pool,
)
from rsmq.transport.retry import (
    INTERRUPTION_GRACE_SECONDS,
    Attempt,
    Failure,
    classify,
    convert_error,
    needs_check,
    plan_retries,
)
from rsmq.transport.signals import DeferredSignals
from rsmq.transport.socket import pack
from rsmq.transport.watched_loops import warn_in_watched_loop, watched_loops
from rsmq.wire.keys import Namespace, require_hash_tag

T = TypeVar("T")

_NO_REPLY = object()
_ALWAYS = Retry.ALWAYS  # saves the lookup of an attribute in each call


class Caller(Protocol):
    """
    An object that runs operations on one server or cluster.

    Attributes:
        origin: how it reaches them.
    """

    origin: Origin

    def run(self, operation: Operation[T]) -> T:
        """Send the operation, retry it if its retry class permits that, and return its result."""

    def close(self) -> None:
        """Close the connections that this object opened."""

    def tracking_pool(self) -> Any:
        """Return the connection pool for connections that track keys; None if they can't."""

    def release_idle_connection(self) -> None:
        """Make the idle connection of this thread available to other threads, before it sleeps."""


class PoolCaller:
    """A caller for one server, which acquires a connection for each attempt."""

    def __init__(self, connections: ConnectionProvider, origin: Origin) -> None:
        self.origin = origin
        self._connections = connections
        self._retry_deadline = origin.retry_deadline

    def run(self, operation: Operation[T]) -> T:
        if watched_loops:
            warn_in_watched_loop()
        is_sent: list[bool] = []
        check = (
            operation.parse_retried is not None or operation.retry is not _ALWAYS
        )  # as needs_check
        try:
            if operation.undo is not None:
                return self._receive(operation, check, is_sent)
            # Signals are deferred also while it connects. If a handler raised during the handshake,
            # redis-py would keep the connection, and read a reply of the handshake as that of the
            # next command.
            with DeferredSignals():
                reply = self._exchange(self._connections.acquire(check=check), operation, is_sent)
        except RedisError as error:
            failure = error
        else:
            return operation.parse(reply)
        try:
            return self._run_again(operation, failure, is_sent=bool(is_sent))
        finally:
            del failure  # its traceback refers to this frame: a reference cycle

    def _run_again(self, operation: Operation[T], error: RedisError, *, is_sent: bool) -> T:
        steps = plan_retries(
            operation,
            error,
            is_sent=is_sent,
            deadline=self._retry_deadline,
            address=lambda: describe_address(self._connections.pool.connection_kwargs),
        )
        try:
            step = next(steps)
            while True:
                if not isinstance(step, Attempt):
                    time.sleep(step)
                    step = next(steps)
                    continue
                next_operation, is_attempt_sent = step.operation, list[bool]()
                try:
                    if next_operation.undo is not None:
                        return self._receive(
                            next_operation, needs_check(next_operation), is_attempt_sent
                        )
                    with DeferredSignals():
                        connection = self._connections.acquire(check=needs_check(next_operation))
                        reply = self._exchange(connection, next_operation, is_attempt_sent)
                except RedisError as failure:
                    error = failure
                else:
                    return step.parse(reply)
                step.is_sent = bool(is_attempt_sent)
                step = steps.throw(error)
        finally:
            del error  # as in run

    def close(self) -> None:
        self._connections.close()

    def tracking_pool(self) -> Any:
        return self._connections.pool

    def release_idle_connection(self) -> None:
        self._connections.release_idle_connection()

    def _receive(self, operation: Operation[T], check: bool, is_sent: list[bool]) -> T:  # noqa: FBT001
        """Run an operation with ``undo``; undo it if a signal handler raises before the return."""
        received: T | None = None
        try:
            with DeferredSignals() as deferred:
                connection = self._connections.acquire(check=check)
                received = operation.parse(self._exchange(connection, operation, is_sent))
                if deferred.pending:
                    try:
                        deferred.deliver()
                    except BaseException:
                        # Signals are still deferred here, while the receive is undone.
                        unreturned, received = received, None
                        self._undo(operation, unreturned)
                        raise
            # Not in an else block: until the return, a signal handler may raise, and the receive
            # must then be undone.
            return received  # noqa: TRY300
        except RedisError:
            raise
        except BaseException:
            with DeferredSignals():  # so that another signal does not interrupt it
                self._undo(operation, received)
            raise

    def _undo(self, operation: Operation[T], received: T | None) -> None:
        undo = operation.undo and received and operation.undo(received)
        if undo:
            with suppress(RedisError, RSMQError):
                self.run(undo)

    def _exchange(self, connection: Any, operation: Operation[T], is_sent: list[bool]) -> Any:
        is_sent.append(True)
        is_usable = False
        reply = _NO_REPLY
        try:
            reply = _call(connection, operation)
            is_usable = True
        except ResponseError as error:
            # A server that rejects every command may have been demoted. A new connection finds the
            # current master.
            is_usable = classify(error, is_sent=True) is not Failure.NOTHING_RAN
            raise
        except RedisError:
            raise
        except BaseException:
            is_usable = operation.undo is not None and _undo_interrupted(
                connection, operation, reply
            )
            raise
        finally:
            self._connections.release(connection, is_usable=is_usable)
        return reply


class ClusterCaller:
    """A caller for a Redis Cluster; redis-py finds the nodes, and retries by its own rules."""

    def __init__(self, client: RedisCluster, origin: Origin) -> None:
        self.origin = origin
        self._client: Any = client

    def run(self, operation: Operation[T]) -> T:
        if watched_loops:
            warn_in_watched_loop()
        if operation.fallback:
            return self.run(operation.fallback)
        try:
            try:
                reply = self._execute(evalsha_command(operation))
            except NoScriptError:
                reply = self._execute(eval_command(operation))
        except ResponseError as error:
            converted = convert_error(error, operation.queues)
            if converted is not None:
                raise converted from None
            raise
        return operation.parse(reply)

    def _execute(self, command: tuple[bytes, ...]) -> Any:
        # To find the node, redis-py compares the name with str values and reads the number of keys.
        name, script, key_count, *arguments = command
        return self._client.execute_command(
            name.decode(), script, int(key_count), *arguments, NEVER_DECODE=True
        )

    def close(self) -> None:
        """Do nothing: the program that created the client closes it."""

    def tracking_pool(self) -> Any:
        """Return None: the keys may move to another node during a waiting receive."""

    def release_idle_connection(self) -> None:
        """Do nothing: no connection belongs to a thread."""


def caller_from_client(client: object, namespace: Namespace, retry_deadline: float) -> Caller:
    """
    Return a caller that uses a client of redis-py; it does not close the client.

    Raises:
        InvalidFormat: the client is not a synchronous client of redis-py, or it is a RedisCluster
            and the namespace has no hash tag.
    """
    origin = Origin(client=client, retry_deadline=retry_deadline)
    if isinstance(client, RedisCluster):
        require_hash_tag(namespace)
        return ClusterCaller(client, origin)
    if isinstance(client, redis.Redis) and not isinstance(client, redis.client.Pipeline):
        return PoolCaller(PooledConnections(client.connection_pool, is_owned=False), origin)
    raise InvalidFormat(
        "client",
        value=show_type(client),
        hint=_suggest_client(client),
    )


def _suggest_client(client: object) -> str:
    if isinstance(client, str):
        return "A URL goes to from_url: RSMQ.from_url('redis://127.0.0.1:6379/0')."
    if type(client).__module__.startswith("redis.asyncio"):
        return "Use AsyncRSMQ for clients of redis.asyncio."
    return "Pass a redis.Redis or redis.RedisCluster, or use RSMQ.from_url."


def caller_from_url(url: str, retry_deadline: float, options: dict[str, Any]) -> Caller:
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
    pool = create_pool(url, lambda: redis.Redis.from_url(url, **pool_options).connection_pool)
    # With a limit the threads must share connections; without one each thread has its own.
    has_limit = "max_connections" in options or "max_connections=" in url
    return PoolCaller(
        PooledConnections(pool, is_owned=True) if has_limit else ThreadConnections(pool),
        Origin(url, options, retry_deadline=retry_deadline),
    )


def _transact(connection: Any, operation: Operation[Any]) -> Any:
    commands = transaction_commands(operation)
    connection.send_packed_command(connection.pack_commands(commands))
    replies = []
    for _ in commands:
        try:
            replies.append(connection.read_response(disable_decoding=True))
        except ResponseError as error:
            replies.append(error)
    return script_reply(replies)


def _call(connection: Any, operation: Operation[Any]) -> Any:
    if operation.prelude is not None:
        return _transact(connection, operation)
    # After an interruption the reply of a receive is still read, to undo the receive. So the
    # interruption must not close the connection.
    close_on_error = operation.undo is None
    connection.send_packed_command(operation.packed or _pack_operation(operation))
    try:
        return connection.read_response(disable_decoding=True, disconnect_on_error=close_on_error)
    except NoScriptError:
        connection.send_command(*eval_command(operation))
        return connection.read_response(disable_decoding=True, disconnect_on_error=close_on_error)


def _pack_operation(operation: Operation[Any]) -> Iterable[bytes]:
    packed = pack(evalsha_command(operation))
    if packed.__class__ is tuple:
        operation.packed = packed
    return packed


def _undo_interrupted(connection: Any, operation: Operation[Any], reply: Any) -> bool:
    """
    Undo a receive that a signal interrupted, and return whether the connection is usable.

    Errors are ignored, so that the interruption is raised: the messages then become visible when
    their visibility timeout ends.

    Args:
        connection: the connection on which the operation was sent.
        operation: the receive.
        reply: its reply; _NO_REPLY if it was not read yet.
    """
    try:
        if reply is _NO_REPLY:
            if not connection.can_read(timeout=INTERRUPTION_GRACE_SECONDS):
                return False
            reply = connection.read_response(disable_decoding=True)
        undo = operation.undo and operation.undo(operation.parse(reply))
        if undo:
            _call(connection, undo)
    except (RedisError, RSMQError):
        return False
    return True
