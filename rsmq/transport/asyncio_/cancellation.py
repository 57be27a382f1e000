"""
Cancellation of calls that may receive messages: such a call is finished or undone.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

from redis.exceptions import RedisError

from rsmq.errors import RSMQError
from rsmq.operations.operation import Operation
from rsmq.transport.asyncio_.requests import Request
from rsmq.transport.retry import INTERRUPTION_GRACE_SECONDS

T = TypeVar("T")


class CancellationGuard:
    """
    A guard that continues the steps of a call after a cancellation.

    It continues them for at most INTERRUPTION_GRACE_SECONDS after the first cancellation.

    Attributes:
        longest_grace: seconds that replace these if they are fewer.
        request: the last request that was waited for.
        cancellation: the last cancellation; None if there was none.
        is_sent: whether any part of a command may have been sent.
        is_first_attempt: whether the call was not tried before.
    """

    __slots__ = (
        "_deadline",
        "_initial_cancel_requests",
        "_task",
        "cancellation",
        "is_first_attempt",
        "is_sent",
        "longest_grace",
        "request",
    )

    def __init__(self) -> None:
        self.cancellation: asyncio.CancelledError | None = None
        self.is_sent = False
        self.is_first_attempt = True
        self.longest_grace = math.inf
        self.request: Request | None = None
        self._deadline = 0.0
        self._task = asyncio.current_task()
        self._initial_cancel_requests = self._task.cancelling() if self._task else 0

    def note_cancellation(self, cancellation: asyncio.CancelledError) -> None:
        """Store a cancellation. The first one starts the grace period."""
        if self.cancellation is None:
            grace = min(INTERRUPTION_GRACE_SECONDS, self.longest_grace)
            self._deadline = asyncio.get_running_loop().time() + grace
        self.cancellation = cancellation

    def detect_cancellation(self) -> asyncio.CancelledError | None:
        """
        Return the last cancellation, also one that was requested during the call and not raised.

        redis-py sends with asyncio.wait_for. On Python 3.11, wait_for returns instead of raising
        CancelledError if the awaited future becomes done at the same moment.
        """
        if (
            self.cancellation is None
            and self._task
            and self._task.cancelling() > self._initial_cancel_requests
        ):
            self.note_cancellation(asyncio.CancelledError())
        return self.cancellation

    async def wait(self, request: Request) -> list[Any]:
        self.request = request
        if self.cancellation is None:  # nearly always; the other path takes longer
            try:
                return await request.wait()
            except asyncio.CancelledError as cancellation:
                self.note_cancellation(cancellation)
        # It may be the undoing, which further cancellations must not prevent.
        return await self.finish(request.wait_shielded)

    async def finish(self, step: Callable[[], Awaitable[T]]) -> T:
        """Run a step that can be run again after a cancellation, and return its result."""
        while True:
            try:
                if self.cancellation is None:
                    return await step()
                async with asyncio.timeout_at(self._deadline):
                    return await step()
            except asyncio.CancelledError as cancellation:
                self.note_cancellation(cancellation)
                if asyncio.get_running_loop().time() >= self._deadline:
                    raise


async def call_or_undo(
    operation: Operation[Any],
    guard: CancellationGuard,
    call: Callable[[Operation[Any]], Awaitable[Any]],
    undo_later: Callable[[Request], None],
) -> Any:
    """
    Call, and return the reply. If cancelled during the call, undo its effect, then raise.

    The cancellation is raised even if the undo operation fails. In that case the messages become
    visible when their visibility timeout ends. If the reply does not come within the grace period,
    the effect is undone when it comes.

    Args:
        guard: the guard of the call, which ``call`` uses too.
        call: sends an operation, and returns its reply.
        undo_later: undoes the effect of a request when its reply comes; it does not wait for it.

    Raises:
        CancelledError: the call was cancelled.
        RedisError, OSError: the call failed and was not cancelled.
    """
    try:
        reply = await call(operation)
    except (RedisError, OSError, RSMQError, asyncio.CancelledError):
        if guard.cancellation is None:
            raise
        if guard.request is not None and not guard.request.is_done:
            undo_later(guard.request)
        raise guard.cancellation from None
    guard.detect_cancellation()
    if guard.cancellation is None:
        return reply
    with suppress(RedisError, OSError, RSMQError):
        undo = operation.undo and operation.undo(operation.parse(reply))
        if undo:
            await call(undo)
    raise guard.cancellation
