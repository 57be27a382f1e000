"""
A request on its way: its connection, and the time limit of its push.

All pushes of a client have the same limit, so the push that began first is the first to expire, and
one timer is enough for all of them.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Protocol

from rsmq.webhooks.answers import Answer


class Connection(Protocol):
    """
    The connection of a request.

    Attributes:
        exchange: the exchange of the request that was sent last; None if it has ended.
        idle_since: the time of the event loop at which it ended.
        seen: the beginning of the answer, as far as it has come.
    """

    exchange: Exchange | None
    idle_since: float
    seen: bytes

    def answer(self) -> Answer | None:
        """Return the answer as far as it has come; None if there is no whole status line."""


class Exchange:
    """
    A push: a request, the connection that it is sent on, and its answer.

    Attributes:
        deadline: the time of the event loop at which the push expires.
        has_expired: whether it has expired. Then the task was cancelled.
        is_connection_new: whether the connection was opened for the request.
        connection: the connection; None before the request is sent.
    """

    __slots__ = (
        "_cancelling",
        "connection",
        "deadline",
        "has_expired",
        "is_connection_new",
        "task",
    )

    def __init__(self, task: asyncio.Task[object], deadline: float) -> None:
        self.task = task
        self.deadline = deadline
        self.has_expired = False
        self.is_connection_new = False
        self.connection: Connection | None = None
        self._cancelling = task.cancelling()

    @property
    def is_connection_stale(self) -> bool:
        """Return whether the request was sent on an older connection, and nothing has come."""
        connection = self.connection
        return connection is not None and not (self.is_connection_new or connection.seen)

    def answer(self) -> Answer | None:
        """Return the answer as far as it has come; None if there is no whole status line."""
        connection = self.connection
        if connection is None or connection.exchange is not self:
            return None
        return connection.answer()

    def leave_connection(self) -> None:
        """Forget the connection. Bytes that come on it from now on are not part of the answer."""
        connection, self.connection = self.connection, None
        self.is_connection_new = False
        if connection is not None and connection.exchange is self:
            connection.exchange = None
            connection.idle_since = asyncio.get_running_loop().time()

    def was_only_cancelled_by_limit(self) -> bool:
        """
        Return whether the time limit alone has cancelled the task; then that is taken back.

        To be called once, for a CancelledError.
        """
        return self.has_expired and self.task.uncancel() <= self._cancelling


#: The exchange of this task.
current_exchange: ContextVar[Exchange | None] = ContextVar("rsmq_exchange", default=None)


class ExchangeTimeLimit:
    """Cancels the tasks whose pushes take too long, on one event loop."""

    def __init__(self, seconds: float) -> None:
        """
        Make it, on the running event loop.

        Args:
            seconds: the time limit of each push.
        """
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._running: dict[Exchange, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> Exchange:
        """Return a new exchange of this task, whose limited time begins now."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - the caller is a coroutine
        exchange = Exchange(task, self._loop.time() + self._seconds)
        self._running[exchange] = None
        if self._timer is None:
            self._timer = self._loop.call_at(exchange.deadline, self._expire)
        return exchange

    def end(self, exchange: Exchange) -> None:
        """Limit the time of an exchange no longer."""
        self._running.pop(exchange, None)

    def _expire(self) -> None:
        self._timer = None
        now = self._loop.time()
        for exchange in list(self._running):
            if exchange.deadline > now:
                self._timer = self._loop.call_at(exchange.deadline, self._expire)
                return
            del self._running[exchange]
            exchange.has_expired = True
            exchange.task.cancel()

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
