"""
A message as a worker passes it to its handler.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

from rsmq.codecs import Codec
from rsmq.codecs.type_variables import B_co
from rsmq.errors import InvalidFormat, show
from rsmq.model import Message, fill_message
from rsmq.wire.jobs import encode_progress
from rsmq.worker.failure import HandlerFailure
from rsmq.worker.stop_event import StopEvent


class DeliveredLease(Protocol):
    """
    The attributes of a lease that a delivery reads and sets.

    Attributes:
        id: the message's id.
        raw: its body.
        count: its receive count.
        first_received_ms: Unix ms of its first receive; None if another client stored none.
        is_cancelled: whether its job is to be cancelled. Once True, it stays True.
        failure: the error that the handler passed to ``fail``; for a message that is not in a batch
            also the error of its call. None if there is none.
    """

    id: str
    raw: bytes
    count: int
    first_received_ms: int | None
    failure: HandlerFailure | None
    is_cancelled: bool

    @property
    def error(self) -> BaseException | None:
        """The exception of ``failure``, for hooks."""

    def fail(self, error: BaseException) -> None:
        """Set ``failure``."""

    def report_progress(self, progress: bytes) -> None:
        """
        Let a progress be written to its record.

        Raises:
            NotTracked: it has no record.
        """

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 1."""

    @property
    def requested_at(self) -> float:
        """Monotonic seconds at which the receive was requested."""

    @property
    def stopping(self) -> StopEvent:
        """The event that is set when its worker stops."""

    @property
    def is_over(self) -> bool:
        """Whether the lease is over for its handler. Once True, it stays True."""


class Delivery(Message[B_co]):
    """
    A message as a worker passes it to its handler: a ``Message``, so it is also a receipt.

    The worker extends its visibility timeout while the handler runs. If the handler returns, the
    worker deletes the message. If it raises, the worker hides the message until the next attempt.

    ``Delivery[Order]`` is a delivery whose body is an Order; ``Delivery`` is ``Delivery[Any]``.
    """

    __slots__ = ("_lease",)

    _lease: DeliveredLease

    @property
    def lease_lost(self) -> bool:
        """
        Return whether the lease is lost: another consumer may have received the message.

        The lease is lost in these cases:

        - The visibility timeout could not be extended in time.
        - Another client received or deleted the message.
        - The call exceeded max_runtime.
        - The worker stopped without waiting any longer for the handler.

        From then on the handler's result is ignored: it does not delete or retry the message.
        Another consumer may repeat the handler's work. A long-running handler checks this property
        from time to time, and ends when it is True. Once True, it stays True.
        """
        return self._lease.is_over

    @property
    def cancelled(self) -> bool:
        """
        Return whether its job is to be cancelled: ``job.cancel()`` was called while it runs.

        A worker with ``track=True`` knows that within a third of the visibility timeout, and within
        2 seconds at most; without, it is always False. A long-running handler in a thread checks it
        from time to time, and raises any exception: then the message is deleted without a retry or
        a dead letter, and the job is cancelled. If the handler returns, the job has succeeded.
        Async handlers and child processes are interrupted, and need not check it.
        """
        return self._lease.is_cancelled

    @property
    def stopping(self) -> StopEvent:
        """
        Return the event that is set when the worker begins to stop.

        A long-running handler looks at it from time to time, as by ``if message.stopping:``, or
        waits for it instead of sleeping: ``message.stopping.wait(5)`` in threads and child
        processes, ``await message.stopping.wait_async(5)`` in async handlers. It has the rest of
        the grace period to end. If it raises ``Defer`` then, the message is received again without
        an attempt.
        """
        return self._lease.stopping

    def set_progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """
        Report how far the handler has come, for ``job.progress()`` and ``status.progress``.

        It costs no call to Redis: the last progress is written when the visibility timeout is
        extended, at most once a second, and with the outcome of the message. It may be called as
        often as the handler likes, from any thread of it. A new attempt begins without progress.

        Args:
            done: how much is done, from 0, in units of the handler.
            total: how much there is to do, from 0; None if it is not known.
            text: what the handler does. The first 500 characters are stored.

        Raises:
            NotTracked: its listener has no ``track=True``.
            InvalidValue: done or total is not a number from 0 to 9,007,199,254,740,991.
            InvalidFormat: text is not a str.
        """
        self._lease.report_progress(encode_progress(done, total, text))

    def __reduce__(self) -> tuple[Any, ...]:
        # In another process there is no lease: there it is an ordinary message.
        parts = (self.queue, self.id, self.raw, self.receive_count, self.first_received_ms)
        return Message, (*parts, self._codec)

    @property
    def error(self) -> BaseException | None:
        """
        The error of this message; None if there is none.

        It was passed to ``fail``, or was raised when the message was decoded or in
        ``before_handle``. For a message that is not in a batch it may also be the handler's
        exception.
        """
        return self._lease.error

    @property
    def attempt(self) -> int:
        """
        The number of the attempt, from 1: how many receives of this message began a handler call.

        It is the receive count without the receives after which a worker released the message
        before its handler was called. Receives by other clients count as attempts, and those of
        workers that were killed.
        """
        return self._lease.attempt

    @property
    def waited_seconds(self) -> float | None:
        """
        Seconds since the message was sent, by the server's clock, its delay included.

        None for a message that was received before, or whose id contains no time.
        """
        sent_ms, received_ms = self.sent_ms, self.first_received_ms
        if self.receive_count > 1 or sent_ms is None or received_ms is None:
            return None
        seconds = (received_ms - sent_ms) / 1000 + time.monotonic() - self._lease.requested_at
        return max(seconds, 0.0)

    def fail(self, error: BaseException) -> None:
        """
        Mark this message of a batch as failed. Messages that are not marked count as handled.

        Args:
            error: treated as if a handler had raised it for this message only. Retry, Defer,
                Discard and DeadLetter work too.

        Raises:
            InvalidFormat: it is not an exception.
        """
        if not isinstance(error, BaseException):
            raise InvalidFormat("error", value=show(error), hint="It is an exception.")
        self._lease.fail(error)


def make_delivery(lease: DeliveredLease, queue: str, codec: Codec) -> Delivery:
    """Return the message of a lease as its handler receives it."""
    delivery = _new(Delivery)
    fill_message(delivery, queue, lease.id, lease.raw, lease.count, lease.first_received_ms, codec)
    _set_lease(delivery, lease)
    return delivery


_new = object.__new__
_set_lease = Delivery.__dict__["_lease"].__set__
