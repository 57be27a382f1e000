"""
Runs an operation on Redis, for the synchronous client.

Connections are acquired and used directly, below the level at which redis-py retries commands by
itself: only this module knows which operation may be retried. ``retry.py`` classifies failures.
The package ``operations`` builds the commands. ``asyncio_/caller.py`` does the same for asyncio.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import redis
from redis.exceptions import AskError, NoScriptError, RedisError, ResponseError

from rsmq.errors import NotReplicated, RSMQError
from rsmq.operations.confirmation import Confirm, raise_unconfirmed
from rsmq.operations.operation import Operation, RetryClass
from rsmq.transport.body_limit import LIMIT_COMMAND, body_limit
from rsmq.transport.commands import (
    asking_commands,
    eval_command,
    evalsha_command,
    many_commands,
    needs_asking,
    reply_of,
    routing_key,
)
from rsmq.transport.confirmation import CONNECTION_BROKE, longest_wait
from rsmq.transport.failure_texts import describe_server
from rsmq.transport.origin import Origin
from rsmq.transport.packing import pack, pack_small_call
from rsmq.transport.redis_py import set_timeout
from rsmq.transport.retry import (
    INTERRUPTION_GRACE_SECONDS,
    Attempt,
    DeadlinePassed,
    Failure,
    choose_deadline_of,
    classify,
    end_of_attempts,
    needs_check,
    plan_retries,
    shorter_timeout,
)
from rsmq.transport.servers import origin_of_client, origin_of_url, owner_of_connections
from rsmq.transport.sharing import Sharing
from rsmq.transport.signals import DeferredSignals
from rsmq.transport.threads.confirmed import call_confirmed, prepare, transact
from rsmq.transport.threads.pending import PendingCall
from rsmq.transport.threads.pools import ConnectionProvider, make_provider
from rsmq.transport.threads.router import ServerRouter
from rsmq.transport.topology.address import Address
from rsmq.transport.topology.group import ServerGroup
from rsmq.transport.watched_loops import warn_in_watched_loop, watched_loops
from rsmq.wire.keys import Namespace
from rsmq.wire.limits import check_body_size

T = TypeVar("T")

_NO_REPLY = object()

#: The connections of all callers around a client of redis-py.
_providers: Sharing[ConnectionProvider] = Sharing()
_routers: Sharing[ServerRouter] = Sharing()


def _is_alone() -> bool:
    return True


_ALWAYS = RetryClass.ALWAYS  # saves the lookup of an attribute in each call


class Caller(Protocol):
    """
    An object that runs operations on one server or cluster.

    Attributes:
        origin: how it reaches them.
        server_options: the options of connections to one server; None if there are several.
    """

    origin: Origin
    server_options: Mapping[str, Any] | None

    def run(self, operation: Operation[T]) -> T:
        """Send the operation, retry it if its retry class permits that, and return its result."""

    def begin(self, operation: Operation[T]) -> PendingCall[T]:
        """Send plain commands that may run again; their result is read later."""

    def close(self) -> None:
        """Close the connections that this object opened."""

    def tracking_pool(self, key: bytes) -> Any:
        """
        Return the class and the options of a connection that tracks keys, as a pool has them.

        Args:
            key: one of the keys; the connection is for the server that has it.

        Raises:
            RedisError: no server could say which one it is.
        """

    def address_of(self, key: bytes) -> Address | None:
        """Return the server that has a key, as far as it is known; None if there is only one."""

    def note_lost(self, key: bytes, error: BaseException) -> None:
        """Note that a connection of ``tracking_pool`` was lost, or that its server refused."""

    def release_idle_connection(self) -> None:
        """Make the idle connection of this thread available to other threads, before it sleeps."""


class ServerCaller:
    """A caller for one server, which acquires a connection for each attempt."""

    #: Whether the server may name another one that has the keys of a call.
    _follows_redirects = False

    def __init__(
        self,
        connections: ConnectionProvider,
        origin: Origin,
        leave: Callable[[], bool] = _is_alone,
    ) -> None:
        self.origin = origin
        self._leave = leave
        self.server_options: Mapping[str, Any] | None = connections.pool.connection_kwargs
        self._connections = connections
        self._retry_deadline = origin.retry_deadline

    def run(self, operation: Operation[T]) -> T:
        if watched_loops:
            warn_in_watched_loop()
        is_sent: list[bool] = []
        began = time.monotonic()
        deadline = operation.retry_deadline  # as choose_deadline_of; a time limit needs none
        if deadline is None:
            deadline = self._retry_deadline
        until = end_of_attempts(operation, deadline, began)
        check = (
            operation.parse_retried is not None or operation.retry is not _ALWAYS
        )  # as needs_check
        try:
            connections = self._connections_for(operation)
            if operation.undo is not None:
                return self._receive(connections, operation, is_sent, check=check, until=until)
            # Signals are deferred also while it connects. If a handler raised during the handshake,
            # redis-py would keep the connection, and read a reply of the handshake as that of the
            # next command.
            with DeferredSignals():
                reply = self._exchange(connections, operation, is_sent, check=check, until=until)
        except RedisError as error:
            failure = error
        else:
            return operation.parse(reply)
        try:
            return self._run_again(operation, failure, is_sent=bool(is_sent), began=began)
        finally:
            del failure  # its traceback refers to this frame: a reference cycle

    def begin(self, operation: Operation[T]) -> PendingCall[T]:
        return PendingCall(operation, lambda: self._connections_for(operation), self.run)

    def join(self, owner: object) -> None:
        """Use the connections of all callers that have this owner; nothing must be open yet."""
        self._connections, self._leave = _providers.join(owner, lambda: self._connections)

    def _run_again(
        self, operation: Operation[T], error: RedisError, *, is_sent: bool, began: float
    ) -> T:
        deadline = choose_deadline_of(operation, self._retry_deadline, began)
        until = end_of_attempts(operation, deadline, began)
        steps = plan_retries(
            operation,
            error,
            is_sent=is_sent,
            deadline=deadline,
            began=began,
            address=self._describe,
            follows_redirects=self._follows_redirects,
        )
        try:
            step = next(steps)
            while True:
                if not isinstance(step, Attempt):
                    time.sleep(step)
                    step = next(steps)
                    continue
                next_operation, is_attempt_sent = step.operation, list[bool]()
                check = needs_check(next_operation)
                redirect = error if isinstance(error, AskError) else None
                is_asking = needs_asking(redirect)
                try:
                    connections = (
                        self._connections_for(operation)
                        if redirect is None
                        else self._redirected(redirect)
                    )
                    if next_operation.undo is not None:
                        return self._receive(
                            connections, next_operation, is_attempt_sent, check=check,
                            is_asking=is_asking, until=until,
                        )  # fmt: skip
                    with DeferredSignals():
                        reply = self._exchange(
                            connections, next_operation, is_attempt_sent, check=check,
                            is_asking=is_asking, until=until,
                        )  # fmt: skip
                except RedisError as failure:
                    error = failure
                else:
                    return step.parse(reply)
                step.is_sent = bool(is_attempt_sent)
                step = steps.throw(error)
        finally:
            del error  # as in run

    def _connections_for(self, operation: Operation[Any]) -> ConnectionProvider:  # noqa: ARG002
        """Return the connections to the server that has the keys of an operation."""
        return self._connections

    def _redirected(self, error: AskError) -> ConnectionProvider:
        """Return the connections to the server that an error names; one server names none."""
        raise error

    def _describe(self) -> str:
        """Return the address of the server, for texts."""
        return describe_server(self._connections.pool)

    def close(self) -> None:
        if self._leave():
            self._connections.close()

    def tracking_pool(self, key: bytes) -> Any:  # noqa: ARG002
        return self._connections.pool

    def address_of(self, key: bytes) -> Address | None:  # noqa: ARG002
        return None

    def note_lost(self, key: bytes, error: BaseException) -> None:
        """Do nothing: there is only one server to connect to."""

    def release_idle_connection(self) -> None:
        self._connections.release_idle_connection()

    def _receive(
        self,
        connections: ConnectionProvider,
        operation: Operation[T],
        is_sent: list[bool],
        *,
        check: bool,
        until: float,
        is_asking: bool = False,
    ) -> T:
        """Run an operation with ``undo``; undo it if a signal handler raises before the return."""
        received: T | None = None
        try:
            with DeferredSignals() as deferred:
                reply = self._exchange(
                    connections, operation, is_sent, check=check, until=until, is_asking=is_asking
                )
                received = operation.parse(reply)
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

    def _exchange(
        self,
        connections: ConnectionProvider,
        operation: Operation[Any],
        is_sent: list[bool],
        *,
        check: bool,
        until: float,
        is_asking: bool = False,
    ) -> Any:
        connection = connections.acquire(check=check, until=until)
        is_usable = False
        reply = _NO_REPLY
        missing = timeout = usual = None
        try:
            timeout = operation.reply_timeout or shorter_timeout(connections.timeout, until)
            if timeout is not None:
                usual = set_timeout(getattr(connection, "connection", connection), timeout)
            if operation.large_body > connections.body_limit:
                connections.body_limit = body_limit(transact(connection, [LIMIT_COMMAND])[0])
                check_body_size(operation.large_body, connections.body_limit)
            if operation.confirmation is not None:
                prepare(connections, connection, operation.confirmation)
                is_sent.append(True)
                reply, missing = call_confirmed(
                    connection, operation, longest_wait(connections.timeout), is_asking=is_asking
                )
                is_usable = missing != CONNECTION_BROKE
            else:
                is_sent.append(True)
                call = _call_asking if is_asking else _call
                reply = call(connection, operation)
                is_usable = True
        except ResponseError as error:
            # A server that rejects every command may have been demoted. A new connection finds the
            # current primary.
            is_usable = classify(error, is_sent=True) is not Failure.NOTHING_RAN
            connections.note_failure(error)
            raise
        except DeadlinePassed:  # before anything was sent
            is_usable = True
            raise
        except RedisError as error:
            connections.note_failure(error)
            raise
        except BaseException:
            is_usable = (
                operation.undo is not None
                and not is_asking
                and _undo_interrupted(connection, operation, reply)
            )
            raise
        finally:
            if timeout is not None:
                set_timeout(getattr(connection, "connection", connection), usual)
            connections.release(connection, is_usable=is_usable)
        if missing is not None and operation.confirmation is not None:
            result = operation.parse(reply)
            _raise_unconfirmed(connections, result, operation.confirmation, missing)
        return reply


class RoutedCaller(ServerCaller):
    """A caller for several servers: each call goes to the one that has its keys."""

    _follows_redirects = True

    def __init__(
        self, router: ServerRouter, origin: Origin, leave: Callable[[], bool] = _is_alone
    ) -> None:
        self.origin = origin
        self._leave = leave
        self.server_options = None
        self._retry_deadline = origin.retry_deadline
        self._router = router

    def join(self, owner: object) -> None:
        self._router, self._leave = _routers.join(owner, lambda: self._router)

    def close(self) -> None:
        if self._leave():
            self._router.close()

    def tracking_pool(self, key: bytes) -> Any:
        return self._router.connections_for(key).pool

    def address_of(self, key: bytes) -> Address | None:
        return self._router.topology.address_of(key)

    def note_lost(self, key: bytes, error: BaseException) -> None:
        self._router.note_lost(key, error)

    def release_idle_connection(self) -> None:
        self._router.release_idle_connection()

    def _connections_for(self, operation: Operation[Any]) -> ConnectionProvider:
        return self._router.connections_for(routing_key(operation))

    def _redirected(self, error: AskError) -> ConnectionProvider:
        return self._router.redirected(error)

    def _describe(self) -> str:
        return self._router.describe()


def caller_from_client(
    client: object, namespace: Namespace, retry_deadline: float | None
) -> Caller:
    """
    Return a caller with connections as those of a client of redis-py, which sends nothing itself.

    Args:
        client: the client.
        namespace: the namespace of the queues.
        retry_deadline: seconds for retries; None is the default.

    Raises:
        InvalidFormat: the client is not a synchronous client of redis-py, or it is a RedisCluster
            and the namespace has no hash tag.
    """
    origin = origin_of_client(redis, client, namespace, retry_deadline, _suggest_client)
    return _make_caller(origin, owner_of_connections(client, origin.servers))


def _suggest_client(client: object) -> str:
    if isinstance(client, str):
        return "A URL goes to from_url: RSMQ.from_url('redis://127.0.0.1:6379/0')."
    if type(client).__module__.startswith("redis.asyncio"):
        return "Use AsyncRSMQ for clients of redis.asyncio."
    return "Pass a redis.Redis or redis.RedisCluster, or use RSMQ.from_url."


def caller_from_url(
    url: str, namespace: Namespace, retry_deadline: float | None, options: dict[str, Any]
) -> Caller:
    """Return a caller with connections of its own, opened when needed; see ``origin_of_url``."""
    return _make_caller(origin_of_url(redis, url, namespace, retry_deadline, options))


def _make_caller(origin: Origin, owner: object = None) -> Caller:
    """Return a caller; with an owner, on the connections of all callers that have it."""
    servers = origin.servers
    leave: Callable[[], bool] = _is_alone
    if isinstance(servers, ServerGroup):
        group = servers
        if owner is None:
            router = ServerRouter(group)
        else:
            router, leave = _routers.join(owner, lambda: ServerRouter(group))
        return RoutedCaller(router, origin, leave)
    pool = servers
    if owner is None:
        provider = make_provider(pool)
    else:
        provider, leave = _providers.join(owner, lambda: make_provider(pool))
    return ServerCaller(provider, origin, leave)


class _Partitions:
    """The owner of connections that several namespaces on the same servers share."""


def share_connections(callers: Iterable[Caller]) -> None:
    """
    Let new callers of the same servers share their connections; the last to close closes them.

    Those of ``memory://`` share them already, with all callers of the same memory.
    """
    owner = _Partitions()
    for each in callers:
        if isinstance(each, ServerCaller) and each.origin.url is not None:
            each.join(owner)


def _raise_unconfirmed(
    connections: ConnectionProvider, result: Any, confirmation: Confirm, missing: str
) -> None:
    try:
        raise_unconfirmed(result, confirmation, missing)
    except NotReplicated as error:
        connections.note_failure(error)
        raise


def _call_asking(connection: Any, operation: Operation[Any]) -> Any:
    """Call a node of Redis Cluster that a slot is moving to."""
    return reply_of(operation, transact(connection, asking_commands(operation)))


def _call(connection: Any, operation: Operation[Any]) -> Any:
    if operation.commands is not None:
        return reply_of(operation, transact(connection, many_commands(operation)))
    # After an interruption the reply of a receive is still read, to undo the receive. So the
    # interruption must not close the connection.
    close_on_error = operation.undo is None
    connection.send_packed_command(pack_small_call(operation) or pack(evalsha_command(operation)))
    try:
        return connection.read_response(disable_decoding=True, disconnect_on_error=close_on_error)
    except NoScriptError:
        connection.send_command(*eval_command(operation))
        return connection.read_response(disable_decoding=True, disconnect_on_error=close_on_error)


def _undo_interrupted(connection: Any, operation: Operation[Any], reply: Any) -> bool:
    """
    Undo a receive that a signal interrupted, and return whether the connection is usable.

    Errors are ignored, so that the interruption is raised: the messages then become visible when
    their visibility timeout ends.

    Args:
        connection: the connection on which the operation was sent.
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
