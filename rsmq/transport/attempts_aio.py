"""
The attempts of a call of the asyncio client, and the undoing of cancelled receives.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from redis.exceptions import AskError, RedisError

from rsmq.errors import RSMQError
from rsmq.operations.operation import Operation
from rsmq.transport.cancellation import CancellationGuard
from rsmq.transport.origin import Origin
from rsmq.transport.retry import (
    Attempt,
    choose_deadline_of,
    needs_check,
    plan_retries,
)
from rsmq.transport.topology.address import Address

T = TypeVar("T")


class RetryingCaller(ABC):
    """The base class of callers: makes attempts, and undoes cancelled receives."""

    #: Whether the server may name another one that has the keys of a call.
    _follows_redirects = False

    def __init__(self, origin: Origin, server_options: Mapping[str, Any] | None) -> None:
        self.origin = origin
        self.server_options = server_options
        self._retry_deadline = origin.retry_deadline

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
    ) -> Any:
        """
        Send an operation once, and return its reply.

        Args:
            operation: the operation.
            guard: the guard of the call.
            check: whether an idle connection must be checked.
            redirect: the error of the last attempt, if it names the server for this attempt.

        Raises:
            CancelledError: the call was cancelled; an operation with ``undo`` is undone.
        """

    async def run(self, operation: Operation[T]) -> T:
        guard = CancellationGuard()
        check = needs_check(operation)
        try:
            # As _attempt does, without a coroutine more in each call.
            reply = await self.exchange(operation, guard, check=check)
            if cancellation := guard.detect_cancellation():
                await self._undo(operation, reply)
                raise cancellation
            return operation.parse(reply)
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
            deadline=choose_deadline_of(operation, self._retry_deadline),
            address=self.describe,
            follows_redirects=self._follows_redirects,
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
                    return await self._attempt(step.operation, step.parse, guard, redirect)
                except (RedisError, OSError) as failure:
                    error = failure
                step.is_sent = guard.is_sent
        finally:
            del error  # as in run

    async def _attempt(
        self,
        operation: Operation[T],
        parse: Callable[[Any], T],
        guard: CancellationGuard,
        redirect: AskError | None = None,
    ) -> T:
        check = needs_check(operation)
        reply = await self.exchange(operation, guard, check=check, redirect=redirect)
        if cancellation := guard.detect_cancellation():
            # It came after the reply, while the connection was released.
            await self._undo(operation, reply)
            raise cancellation
        return parse(reply)

    async def _undo(self, operation: Operation[T], reply: Any) -> None:
        undo = operation.undo and operation.undo(operation.parse(reply))
        if undo:
            with suppress(RedisError, OSError, RSMQError):
                await self.run(undo)
