"""
A message that this worker holds, the call that is made for it, and what its handler sees.

Most calls are for one message: then both are one object, of which there is one a message.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from rsmq.codecs import Codec
from rsmq.errors import InvalidFormat, show
from rsmq.model import Message, fill_message

if TYPE_CHECKING:
    from rsmq.worker.runtime.lane import Lane


class Lease(Protocol):
    """
    A message that this worker holds. All times are of the process's monotonic clock, seconds.

    Attributes:
        id: the message's id.
        raw: its body.
        count: its receive count, which is the attempt.
        first_received_ms: Unix ms of its first receive; None if another client stored none.
        renew_at: when its visibility timeout is to be extended.
        ends: when it ends if it is not extended.
        lost: whether it may be somebody else's by now.
        told: whether its handler was told so.
        error: what was wrong with it; None for nothing.
        job: the call that it is for.
    """

    id: str
    raw: bytes
    count: int
    first_received_ms: int | None
    renew_at: float
    ends: float
    lost: bool
    told: bool
    error: BaseException | None

    @property
    def job(self) -> Job:
        """The call that it is for."""

    def message(self, queue: str, codec: Codec) -> Delivery:
        """What its handler sees."""


class _Seen:
    """What a handler sees of a lease."""

    __slots__ = ()

    def message(self: Lease, queue: str, codec: Codec) -> Delivery:
        """What its handler sees."""
        delivery = _new(Delivery)
        fill_message(delivery, queue, self.id, self.raw, self.count, self.first_received_ms, codec)
        _set_lease(delivery, self)
        return delivery


class Job(Protocol):
    """
    A call of a handler, to be made or under way.

    Attributes:
        lane: whose handler.
        alone: whether nothing else is handled beside it.
        taken: when its messages were received, monotonic seconds.
        began: when the handler was called; None before.
        ended: when it ended; None before.
        error: what it raised; None if it returned.
        let_go: whether nobody waits for its end any more.
        task: what makes it, where that can be cancelled.
        called_off: whether it has been cancelled.
        urgent: whether it begins before what has a higher priority.
    """

    lane: Lane
    alone: bool
    taken: float
    began: float | None
    ended: float | None
    error: BaseException | None
    let_go: bool
    task: Any
    called_off: bool
    urgent: bool

    @property
    def leases(self) -> Sequence[Lease]:
        """The messages of the call: one, or those of a batch."""


class Single(_Seen):
    """A message, and the call that is made for it alone."""

    __slots__ = (
        "alone",
        "began",
        "called_off",
        "count",
        "ended",
        "ends",
        "error",
        "first_received_ms",
        "id",
        "lane",
        "let_go",
        "lost",
        "raw",
        "renew_at",
        "taken",
        "task",
        "told",
        "urgent",
    )

    def __init__(  # noqa: PLR0917 - made for every message
        self,
        lane: Lane,
        id: str,
        raw: bytes,
        count: int,
        first_received_ms: int | None,
        taken: float,
    ) -> None:
        self.lane = lane
        self.id = id
        self.raw = raw
        self.count = count
        self.first_received_ms = first_received_ms
        self.taken = taken
        self.renew_at = taken + lane.vt / 3
        self.ends = taken + lane.vt
        self.lost = self.told = self.alone = self.let_go = self.called_off = self.urgent = False
        self.began: float | None = None
        self.ended: float | None = None
        self.error: BaseException | None = None
        self.task: Any = None

    @property
    def job(self) -> Single:
        """Itself."""
        return self

    @property
    def leases(self) -> Sequence[Lease]:
        """Itself."""
        return (self,)


class OfBatch(_Seen):
    """A message of a batch."""

    __slots__ = (
        "_job",
        "count",
        "ends",
        "error",
        "first_received_ms",
        "id",
        "lost",
        "raw",
        "renew_at",
        "told",
    )

    def __init__(self, job: Batch, single: Single) -> None:
        """As a message that was received by itself."""
        self._job = job
        self.id = single.id
        self.raw = single.raw
        self.count = single.count
        self.first_received_ms = single.first_received_ms
        self.renew_at = single.renew_at
        self.ends = single.ends
        self.lost = self.told = False
        self.error: BaseException | None = None

    @property
    def job(self) -> Batch:
        """The call."""
        return self._job


class Batch:
    """A call that is made for several messages."""

    __slots__ = (
        "_leases",
        "alone",
        "began",
        "called_off",
        "ended",
        "error",
        "lane",
        "let_go",
        "taken",
        "task",
        "urgent",
    )

    def __init__(self, lane: Lane, singles: Sequence[Single], taken: float) -> None:
        self.lane = lane
        self.taken = taken
        self.alone = self.let_go = self.called_off = self.urgent = False
        self.began: float | None = None
        self.ended: float | None = None
        self.error: BaseException | None = None
        self.task: Any = None
        self._leases = [OfBatch(self, single) for single in singles]

    @property
    def leases(self) -> Sequence[Lease]:
        """The messages."""
        return self._leases


class Delivery(Message):
    """
    A message as a worker hands it to its handler: a ``Message``, so a receipt for it too.

    The worker deletes it when the handler returns, hides it until the next attempt when it raises,
    and meanwhile extends its visibility timeout.
    """

    __slots__ = ("_lease",)

    _lease: Lease

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
            InvalidFormat: it is no exception.
        """
        if not isinstance(error, BaseException):
            raise InvalidFormat(
                "error", value=show(error), hint=f"It is an exception; got {show(error)}."
            )
        self._lease.error = error


_new = object.__new__
_set_lease = Delivery.__dict__["_lease"].__set__
