"""
The attempts of a call of the asyncio client, and the undoing of cancelled receives.
"""

from __future__ import annotations

import asyncio
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from redis.exceptions import AskError, RedisError

from rsmq.errors import RSMQError
from rsmq.operations.operation import Operation
from rsmq.transport.asyncio_.call_limit import CallLimit
from rsmq.transport.asyncio_.cancellation import CancellationGuard
from rsmq.transport.asyncio_.multiplexed import ConnectionState, MultiplexedConnection
from rsmq.transport.asyncio_.requests import CallRequest
from rsmq.transport.origin import Origin
from rsmq.transport.retry import (
    Attempt,
    DeadlinePassed,
    choose_deadline_of,
    end_of_attempts,
    needs_check,
    plan_retries,
)
from rsmq.transport.topology.address import Address

T = TypeVar("T")


class SentCall(NamedTuple):
    """
    A first attempt that was sent, and was cancelled or got an error.

    Attributes:
        connection: the connection on which it was sent.
        began: monotonic seconds when the call began.
        cancellation: None if it was not cancelled.
    """

    connection: MultiplexedConnection
    request: CallRequest
    began: float
    cancellation: asyncio.CancelledError | None


class RetryingCaller(ABC):
    """The base class of callers: makes attempts, and undoes cancelled receives."""

    #: Whether the server may name another one that has the keys of a call.
    follows_redirects = False

    def __init__(
        self,
        origin: Origin,
        server_options: Mapping[str, Any] | None,
        timeout: float | None,
    ) -> None:
        """
        Create a caller.

        Args:
            origin: how it reaches its servers.
            server_options: the options of connections to one server; None if there are several.
            timeout: seconds without progress after which a connection is closed; None is forever.
        """
        self.origin = origin
        self.server_options = server_options
        self._retry_deadline = origin.retry_deadline
        #: A first attempt needs no timer of its own if the deadline is as long.
        self.timeout = math.inf if timeout is None else timeout

    def address_of(self, key: bytes) -> Address | None:  # noqa: ARG002
        """Return the server that has a key, as far as it is known; None if there is only one."""
        return None

    @abstractmethod
    def describe(self) -> str:
        """Return the address of the server, for texts."""

    @abstractmethod
    async def exchange(
        self,
        operation: Operation[Any],
        guard: CancellationGuard,
        *,
        check: bool,
        redirect: AskError | None = None,
        sent: SentCall | None = None,
    ) -> Any:
        """
        Send an operation once, and return its reply.

        Args:
            guard: the guard of the call.
            check: whether an idle connection must be checked.
            redirect: the error of the last attempt, if it names the server for this attempt.
            sent: the attempt, if it was sent already.

        Raises:
            CancelledError: the call was cancelled; an operation with ``undo`` is undone.
        """

    def open_connection(self, operation: Operation[Any]) -> MultiplexedConnection | None:  # noqa: ARG002
        """
        Return the connection of a first attempt, if it is open and the script only must be sent.

        Otherwise return None; ``exchange`` does all that is needed.
        """
        return None

    async def run(self, operation: Operation[T]) -> T:
        deadline = operation.retry_deadline or self._retry_deadline
        connection = None
        # As in _run: another deadline needs a timer.
        if operation.limit is None and (deadline >= self.timeout or not deadline):
            connection = self.open_connection(operation)
        if connection is None:
            return await self._run(operation)
        # Nearly always: one coroutine, and no objects but the request and its future.
        connection.calls += 1
        try:
            request = connection.send_call(operation)
            began = request.sent_at
            cancellation = None
            try:
                await request.future
            except asyncio.CancelledError as error:
                if operation.undo is None:
                    raise
                cancellation = error
            else:
                reply = request.replies[0]
                if not isinstance(reply, Exception):
                    connection.loaded.add(operation.script.name)
                    return operation.parse(reply)
            return await self._run(operation, SentCall(connection, request, began, cancellation))
        finally:
            connection.calls -= 1
            if connection.state is not ConnectionState.OPEN:
                connection.close_if_unused()

    async def _run(self, operation: Operation[T], sent: SentCall | None = None) -> T:
        guard = CancellationGuard()
        if sent is not None and sent.cancellation is not None:
            guard.request = sent.request
            guard.note_cancellation(sent.cancellation)
        check = needs_check(operation)
        began = time.monotonic() if sent is None else sent.began
        # As choose_deadline_of; a time limit needs none. The only attempt has a bound too.
        deadline = operation.retry_deadline or self._retry_deadline
        try:
            # As _attempt does, without a coroutine more in each call.
            if operation.limit is None and (deadline >= self.timeout or not deadline):
                reply = await self.exchange(operation, guard, check=check, sent=sent)
            else:
                until = end_of_attempts(operation, deadline, began)
                reply = await _within(until, guard, self.exchange(operation, guard, check=check))
            if cancellation := guard.detect_cancellation():
                await self._undo(operation, reply)
                raise cancellation
            return operation.parse(reply)
        except (RedisError, OSError) as error:
            failure = error
        try:
            return await self._run_again(operation, failure, guard, began)
        finally:
            del failure  # its traceback refers to this frame: a reference cycle

    async def _run_again(
        self, operation: Operation[T], error: Exception, guard: CancellationGuard, began: float
    ) -> T:
        guard.is_first_attempt = False
        deadline = choose_deadline_of(operation, self._retry_deadline, began)
        until = end_of_attempts(operation, deadline, began)
        steps = plan_retries(
            operation,
            error,
            is_sent=guard.is_sent,
            deadline=deadline,
            began=began,
            address=self.describe,
            follows_redirects=self.follows_redirects,
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
                redirect = error if isinstance(error, AskError) else None
                try:
                    return await self._attempt(step, guard, until, redirect)
                except (RedisError, OSError) as failure:
                    error = failure
                step.is_sent = guard.is_sent
        finally:
            del error  # as in run

    async def _attempt(
        self,
        attempt: Attempt[T],
        guard: CancellationGuard,
        until: float,
        redirect: AskError | None = None,
    ) -> T:
        operation = attempt.operation
        check = needs_check(operation)
        reply = await _within(
            until, guard, self.exchange(operation, guard, check=check, redirect=redirect)
        )
        if cancellation := guard.detect_cancellation():
            # It came after the reply, while the connection was released.
            await self._undo(operation, reply)
            raise cancellation
        return attempt.parse(reply)

    async def _undo(self, operation: Operation[T], reply: Any) -> None:
        undo = operation.undo and operation.undo(operation.parse(reply))
        if undo:
            with suppress(RedisError, OSError, RSMQError):
                await asyncio.shield(self.run(undo))  # a further cancellation must not prevent it


async def _within(
    until: float, guard: CancellationGuard, exchange: Coroutine[Any, Any, Any]
) -> Any:
    """
    Return the reply of an attempt that must end before a time.

    Other calls on the same connection are not affected by its end.

    Args:
        until: monotonic seconds.
        guard: the guard of the call. A receive that is over time has half as long again, at most a
            second, to be undone before the error is raised; after it, it is undone later.

    Raises:
        DeadlinePassed: it has not ended before.
    """
    left = max(until - time.monotonic(), 0.0)
    guard.longest_grace = left / 2
    limit = asyncio.timeout(None) if left == math.inf else CallLimit(left)
    try:
        async with limit:
            return await exchange
    except TimeoutError:
        if not limit.expired():
            raise
        guard.cancellation = None  # it was that of the limit
        raise DeadlinePassed("The server did not answer in time.") from None
