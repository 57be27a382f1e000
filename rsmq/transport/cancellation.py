"""
Cancellation of a call that may have received a message: the call is finished, or undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from redis.exceptions import RedisError

from rsmq.errors import RSMQError
from rsmq.operations.operation import Operation
from rsmq.transport.multiplexed import Request, look_at_error
from rsmq.transport.retry import INTERRUPTED_SECONDS

T = TypeVar("T")


class Persistent:
    """
    Goes on through cancellations, for at most INTERRUPTED_SECONDS seconds after the first.

    Attributes:
        cancelled: the last cancellation, None if there was none.
        sent: True once any part of a command may have been on its way.
        done: True once all that was sent has been answered in spite of it.
    """

    def __init__(self) -> None:
        self.cancelled: asyncio.CancelledError | None = None
        self.sent = False
        self.done = False
        self._until = 0.0
        self._task = asyncio.current_task()
        self._requests = self._task.cancelling() if self._task else 0

    def note(self, cancelled: asyncio.CancelledError) -> None:
        """Begin to count the time, if this is the first cancellation."""
        if self.cancelled is None:
            self._until = asyncio.get_running_loop().time() + INTERRUPTED_SECONDS
        self.cancelled = cancelled

    def look_for_what_was_swallowed(self) -> None:
        """
        Note a cancellation that was asked for during the call and that nobody has seen.

        On Python 3.11 asyncio.wait_for, by which redis-py sends, returns instead of raising if
        what it waits for is done in the same moment.
        """
        if self.cancelled is None and self._task and self._task.cancelling() > self._requests:
            self.note(asyncio.CancelledError())

    async def send(self, connection: Any, *command: Any) -> None:
        # redis-py closes a connection whose send is cancelled, with the command on its way.
        await self.finish_task(connection.send_command(*command))

    async def read(self, connection: Any) -> Any:
        return await self.finish(lambda: read_reply(connection))

    async def wait(self, request: Request) -> list[Any]:
        return await self.finish(request.wait)

    async def finish_task(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine that must not be cancelled itself."""
        task = asyncio.ensure_future(coroutine)
        # Where the time is over, nobody waits for it any more.
        task.add_done_callback(look_at_error)

        async def wait() -> T:
            await asyncio.wait((task,))  # unlike shield, it leaves the task as it is
            return task.result()

        return await self.finish(wait)

    async def finish(self, step: Callable[[], Awaitable[T]]) -> T:
        """The result of a step that can be taken up again after a cancellation."""
        while True:
            try:
                if self.cancelled is None:
                    return await step()
                async with asyncio.timeout_at(self._until):
                    return await step()
            except asyncio.CancelledError as cancelled:
                self.note(cancelled)
                if asyncio.get_running_loop().time() >= self._until:
                    raise


async def call_or_undo(
    operation: Operation[Any],
    persistent: Persistent,
    call: Callable[[Operation[Any]], Awaitable[Any]],
) -> Any:
    """
    Call; if cancelled meanwhile, undo what was done before the cancellation goes on.

    The cancellation stands in any case: if the undoing fails, the message comes back with its
    visibility timeout.
    """
    try:
        reply = await call(operation)
        persistent.look_for_what_was_swallowed()
        if persistent.cancelled is None:
            return reply
        undo = operation.undo and operation.undo(operation.parse(reply))
        if undo:
            await call(undo)
        persistent.done = True
    except (RedisError, OSError, RSMQError):
        if persistent.cancelled is None:
            raise
    raise persistent.cancelled


async def read_reply(connection: Any) -> Any:
    """Return the next reply, undecoded."""
    # Reading can be taken up again after a cancellation, if the connection stays open.
    return await connection.read_response(disable_decoding=True, disconnect_on_error=False)
