"""
The client of one cell.
"""

from __future__ import annotations

from typing import Any, TypeVar

from redis.exceptions import RedisError

from rsmq.aio import AsyncRSMQ
from rsmq.cells.messages import CellMessage, class_of
from rsmq.cells.time_limits import current_time_limit
from rsmq.codecs import Codec
from rsmq.operations.batches import ReceiveInSteps
from rsmq.operations.lost_replies import LostReplies
from rsmq.operations.operation import Operation
from rsmq.operations.time_limit import TimeLimit
from rsmq.transport.asyncio_.caller import AsyncCaller
from rsmq.wire.limits import Seconds

T = TypeVar("T")


class AsyncCellClient(AsyncRSMQ[Any]):
    """
    The client of one cell, on connections that it shares with other cells.

    Attributes:
        has_failed: whether a call has failed since the cell was checked.
    """

    def __init__(
        self,
        cell: int,
        caller: AsyncCaller,
        ns: str,
        settings: dict[str, Any],
        retry_deadline: float | None = None,
    ) -> None:
        """
        Create a client; nothing is opened.

        Args:
            caller: runs its operations.
            settings: the other arguments of ``AsyncRSMQ``.
            retry_deadline: seconds for retries; None is the deadline of the caller.
        """
        self._configure(
            ns,
            settings["codec"],
            realtime=settings["realtime"],
            strict_names=settings["strict_names"],
        )
        self._use_confirm(settings["confirm"])
        self._use_caller(caller)
        self.message_class: type[CellMessage[Any]] = class_of(cell)
        self._own_deadline = retry_deadline
        self.has_failed: bool = False

    def codec_for(self, codec: Codec | None) -> Codec:
        """Return the codec of a call, or that of the client."""
        return self._codec_for(codec)

    @property
    def losses(self) -> LostReplies:
        """The lost replies of this client."""
        return self._losses

    async def receive(self, receive: Operation[T] | ReceiveInSteps) -> T:
        """Receive or pop messages, without waiting."""
        return await self._receive(receive, 0)

    async def run(self, operation: Operation[T]) -> T:
        """See ``AsyncRSMQ.run``."""
        operation.retry_deadline = self._own_deadline
        try:
            return await super().run(operation)
        except (RedisError, OSError):
            self.has_failed = True
            raise

    def _limit_for(self, timeout: Seconds | None) -> TimeLimit | None:
        return current_time_limit() if timeout is None else super()._limit_for(timeout)
