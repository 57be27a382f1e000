"""
Runs an operation on Redis, for the synchronous client.

Connections are taken from the pool and used directly, below the level where redis-py repeats
commands by itself: only this module knows which operation may be repeated. ``retry.py`` classifies
failures. The package ``operations`` builds what is sent. ``aio.py`` is the asyncio twin.
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

from rsmq.errors import InvalidFormat, RSMQError
from rsmq.operations.operation import Operation, Retry
from rsmq.transport.commands import call_by_name, call_by_text, last_of, transaction
from rsmq.transport.pools import Connections, PerThread, Pooled, checked_pool, without_retries
from rsmq.transport.retry import (
    INTERRUPTED_SECONDS,
    Attempt,
    Failure,
    classify,
    explain,
    needs_check,
    retries,
)
from rsmq.transport.signals import Held
from rsmq.transport.socket import pack
from rsmq.wire.keys import Namespace, require_hash_tag

T = TypeVar("T")

_NOT_ANSWERED = object()
_ALWAYS = Retry.ALWAYS  # a name less to look up in each call


class Caller(Protocol):
    """Runs operations on one server."""

    def run(self, operation: Operation[T]) -> T:
        """Send the operation, and return what its reply means."""

    def close(self) -> None:
        """Close the connections that this object opened."""

    def watched_pool(self) -> Any:
        """Where a connection that tracks keys can be made; None if nowhere."""

    def rest(self) -> None:
        """Leave the connection that is kept for this thread to others: it will sleep."""


class PoolCaller:
    """Runs operations over connections that this process takes one at a time."""

    def __init__(self, connections: Connections, retry_deadline: float) -> None:
        self._connections = connections
        self._retry_deadline = retry_deadline

    def run(self, operation: Operation[T]) -> T:
        sent: list[bool] = []
        check = (
            operation.parse_retried is not None or operation.retry is not _ALWAYS
        )  # as needs_check
        try:
            if operation.undo is not None:
                return self._receive(operation, check, sent)
            # Also while it connects: redis-py keeps a connection whose greeting was broken off,
            # and would take its answer for that of the next command.
            with Held():
                reply = self._exchange(self._connections.take(check=check), operation, sent)
        except RedisError as error:
            failure = error
        else:
            return operation.parse(reply)
        try:
            return self._run_again(operation, failure, sent=bool(sent))
        finally:
            del failure  # as it keeps this frame, the frame would keep it

    def _run_again(self, operation: Operation[T], error: RedisError, *, sent: bool) -> T:
        steps = retries(operation, error, sent=sent, deadline=self._retry_deadline)
        try:
            step = next(steps)
            while True:
                if not isinstance(step, Attempt):
                    time.sleep(step)
                    step = next(steps)
                    continue
                again, begun = step.operation, list[bool]()
                try:
                    if again.undo is not None:
                        return self._receive(again, needs_check(again), begun)
                    with Held():
                        connection = self._connections.take(check=needs_check(again))
                        reply = self._exchange(connection, again, begun)
                except RedisError as failure:
                    error = failure
                else:
                    return step.parse(reply)
                step.sent = bool(begun)
                step = steps.throw(error)
        finally:
            del error  # as in run

    def close(self) -> None:
        self._connections.close()

    def watched_pool(self) -> Any:
        return self._connections.pool

    def rest(self) -> None:
        self._connections.rest()

    def _receive(self, operation: Operation[T], check: bool, sent: list[bool]) -> T:  # noqa: FBT001
        """Exchange; if interrupted by a signal, undo what was done before that goes on."""
        received: T | None = None
        try:
            with Held() as held:
                connection = self._connections.take(check=check)
                received = operation.parse(self._exchange(connection, operation, sent))
                if held.noted:
                    try:
                        held.deliver()
                    except BaseException:
                        # The next signal is held back while what was received is undone.
                        undone, received = received, None
                        self._undo(operation, undone)
                        raise
            # Until here a signal may raise, and what was received must be known then.
            return received  # noqa: TRY300
        except RedisError:
            raise
        except BaseException:
            with Held():  # so that the next signal does not break it off
                self._undo(operation, received)
            raise

    def _undo(self, operation: Operation[T], received: T | None) -> None:
        undo = operation.undo and received and operation.undo(received)
        if undo:
            with suppress(RedisError, RSMQError):
                self.run(undo)

    def _exchange(self, connection: Any, operation: Operation[T], sent: list[bool]) -> Any:
        sent.append(True)
        usable = False
        reply = _NOT_ANSWERED
        try:
            reply = _call(connection, operation)
            usable = True
        except ResponseError as error:
            # A server that refuses all, as one that was demoted, is looked up anew.
            usable = classify(error, sent=True) is not Failure.NOTHING_RAN
            raise
        except RedisError:
            raise
        except BaseException:
            usable = operation.undo is not None and _give_back(connection, operation, reply)
            raise
        finally:
            self._connections.put(connection, usable=usable)
        return reply


class ClusterCaller:
    """Runs operations on a Redis Cluster; redis-py finds the nodes, and repeats by its rules."""

    def __init__(self, client: RedisCluster) -> None:
        self._client: Any = client

    def run(self, operation: Operation[T]) -> T:
        if operation.fallback:
            return self.run(operation.fallback)
        try:
            try:
                reply = self._execute(call_by_name(operation))
            except NoScriptError:
                reply = self._execute(call_by_text(operation))
        except ResponseError as error:
            ours = explain(error, operation.queues)
            if ours is not None:
                raise ours from None
            raise
        return operation.parse(reply)

    def _execute(self, command: tuple[bytes, ...]) -> Any:
        # redis-py looks for the command's name, and for the number of keys, as text.
        name, script, count, *rest = command
        return self._client.execute_command(
            name.decode(), script, int(count), *rest, NEVER_DECODE=True
        )

    def close(self) -> None:
        """Nothing: whoever made the client closes it."""

    def watched_pool(self) -> Any:
        """None: which node has the keys may change while somebody waits."""

    def rest(self) -> None:
        """Nothing is kept for a thread."""


def caller_of(client: object, namespace: Namespace, retry_deadline: float) -> Caller:
    """
    The way to run operations over a client that somebody else made and will close.

    Raises:
        InvalidFormat: it is not a synchronous client of redis-py, or it is one of a Redis
            Cluster and the namespace has no hash tag.
    """
    if isinstance(client, RedisCluster):
        require_hash_tag(namespace)
        return ClusterCaller(client)
    if isinstance(client, redis.Redis) and not isinstance(client, redis.client.Pipeline):
        return PoolCaller(Pooled(client.connection_pool, owned=False), retry_deadline)
    raise InvalidFormat(
        "client",
        value=type(client).__name__,
        hint=f"RSMQ takes a redis.Redis or redis.RedisCluster, not a {type(client).__name__}; "
        "AsyncRSMQ takes the clients of redis.asyncio.",
    )


def open_caller(url: str, retry_deadline: float, options: dict[str, Any]) -> Caller:
    """
    The way to run operations over connections of our own.

    Raises:
        InvalidFormat: redis-py refuses the URL or an option.
    """
    known = without_retries(options, RedisRetry(NoBackoff(), 0))
    pool = checked_pool(url, lambda: redis.Redis.from_url(url, **known).connection_pool)
    # Who sets a limit wants the threads to share; without one each may keep its connection.
    limited = "max_connections" in options or "max_connections=" in url
    return PoolCaller(Pooled(pool, owned=True) if limited else PerThread(pool), retry_deadline)


def _transact(connection: Any, operation: Operation[Any]) -> Any:
    commands = transaction(operation)
    connection.send_packed_command(connection.pack_commands(commands))
    replies = []
    for _ in commands:
        try:
            replies.append(connection.read_response(disable_decoding=True))
        except ResponseError as error:
            replies.append(error)
    return last_of(replies)


def _call(connection: Any, operation: Operation[Any]) -> Any:
    if operation.prelude is not None:
        return _transact(connection, operation)
    # An interrupted receive reads on, so an interruption alone must not close the connection.
    close_on_error = operation.undo is None
    connection.send_packed_command(operation.packed or _packed(operation))
    try:
        return connection.read_response(disable_decoding=True, disconnect_on_error=close_on_error)
    except NoScriptError:
        connection.send_command(*call_by_text(operation))
        return connection.read_response(disable_decoding=True, disconnect_on_error=close_on_error)


def _packed(operation: Operation[Any]) -> Iterable[bytes]:
    packed = pack(call_by_name(operation))
    if packed.__class__ is tuple:
        operation.packed = packed
    return packed


def _give_back(connection: Any, operation: Operation[Any], reply: Any) -> bool:
    """
    Undo a receive that was interrupted, as by Ctrl-C; True if the connection is still usable.

    The interruption stands in any case: what fails here fails silently, and the message comes
    back with its visibility timeout.
    """
    try:
        if reply is _NOT_ANSWERED:
            if not connection.can_read(timeout=INTERRUPTED_SECONDS):
                return False
            reply = connection.read_response(disable_decoding=True)
        undo = operation.undo and operation.undo(operation.parse(reply))
        if undo:
            _call(connection, undo)
    except (RedisError, RSMQError):
        return False
    return True
