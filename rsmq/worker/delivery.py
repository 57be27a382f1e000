"""
A message as a worker hands it to its handler.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

from rsmq.codecs import Codec
from rsmq.errors import InvalidFormat, show
from rsmq.model import Message, fill_message


class DeliveredLease(Protocol):
    """
    What a delivery reads and notes of its lease.

    Attributes:
        id: the message's id.
        raw: its body.
        count: its receive count.
        first_received_ms: Unix ms of its first receive; None if another client stored none.
        ends: monotonic seconds at which its visibility timeout ends.
        lost: whether another consumer may have the message by now.
        told: whether the handler has seen that the lease is lost.
        error: the error that the handler noted with ``fail``; None for nothing.
    """

    id: str
    raw: bytes
    count: int
    first_received_ms: int | None
    ends: float
    lost: bool
    told: bool
    error: BaseException | None


class Delivery(Message):
    """
    A message as a worker hands it to its handler: a ``Message``, so a receipt for it too.

    The worker deletes it when the handler returns, hides it until the next attempt when it raises,
    and meanwhile extends its visibility timeout.
    """

    __slots__ = ("_lease",)

    _lease: DeliveredLease

    @property
    def lease_lost(self) -> bool:
        """
        Whether the message may be somebody else's by now.

        So it is when the visibility timeout could not be extended in time, when somebody received
        or deleted the message, when max_runtime is over, and when the worker has stopped without
        waiting any longer. What the handler does from then on may be done twice; its message is
        left alone. A long-running handler looks here now and then, and ends when it is True.
        """
        lease = self._lease
        if not lease.told and (lease.lost or time.monotonic() > lease.ends):
            lease.told = True  # that stays so: the handler may have ended for it
        return lease.told

    def __reduce__(self) -> tuple[Any, ...]:
        # For another process it is a message like any other.
        parts = (self.queue, self.id, self.raw, self.receive_count, self.first_received_ms)
        return Message, (*parts, self._codec)

    @property
    def error(self) -> BaseException | None:
        """What was said to ``fail``, or could not be done with it; None for nothing."""
        return self._lease.error

    @property
    def attempt(self) -> int:
        """The receive count under its other name: from 1."""
        return self.receive_count

    def fail(self, error: BaseException) -> None:
        """
        Say that this message of a batch has failed; those of which nothing is said are done.

        Args:
            error: treated as if a handler of this message alone had raised it: Retry, Discard and
                DeadLetter too.

        Raises:
            InvalidFormat: it is not an exception.
        """
        if not isinstance(error, BaseException):
            raise InvalidFormat(
                "error", value=show(error), hint=f"It is an exception; got {show(error)}."
            )
        self._lease.error = error


def make_delivery(lease: DeliveredLease, queue: str, codec: Codec) -> Delivery:
    """Return the message of a lease as its handler sees it."""
    delivery = _new(Delivery)
    fill_message(delivery, queue, lease.id, lease.raw, lease.count, lease.first_received_ms, codec)
    _set_lease(delivery, lease)
    return delivery


_new = object.__new__
_set_lease = Delivery.__dict__["_lease"].__set__
