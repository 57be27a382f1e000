"""
A message that this worker holds, and what its handler sees of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rsmq.codecs import Codec
from rsmq.errors import InvalidFormat, show
from rsmq.model import Message

if TYPE_CHECKING:
    from rsmq.worker.lane import Lane


class Lease:
    """
    A message that this worker holds.

    Attributes:
        id: the message's id.
        raw: its body.
        count: its receive count, which is the attempt.
        first_received_ms: Unix ms of its first receive; None if another client stored none.
        renew_at: when its visibility timeout is to be extended; all times are of the process's
            monotonic clock, seconds.
        ends: when it ends if it is not extended.
        lost: whether it may be somebody else's by now.
        error: what the handler said of this message alone; None for nothing.
        job: the call that it is for.
    """

    __slots__ = (
        "count",
        "delivery",
        "ends",
        "error",
        "first_received_ms",
        "id",
        "job",
        "lost",
        "raw",
        "renew_at",
    )

    def __init__(  # noqa: PLR0917 - made for every message
        self,
        id: str,
        raw: bytes,
        count: int,
        first_received_ms: int | None,
        renew_at: float,
        ends: float,
    ) -> None:
        self.id = id
        self.raw = raw
        self.count = count
        self.first_received_ms = first_received_ms
        self.renew_at = renew_at
        self.ends = ends
        self.lost = False
        self.error: BaseException | None = None
        self.delivery: Delivery | None = None
        self.job: Job

    def message(self, queue: str, codec: Codec) -> Delivery:
        """What its handler sees."""
        if self.delivery is None:
            delivery = self.delivery = Delivery(
                queue, self.id, self.raw, self.count, self.first_received_ms, codec
            )
            _set_lease(delivery, self)
        return self.delivery


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
        return self._lease.lost

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


_set_lease = Delivery.__dict__["_lease"].__set__


class Job:
    """
    A call of a handler, to be made or under way.

    Attributes:
        lane: whose handler.
        leases: the messages of the call: one, or those of a batch.
        alone: whether nothing else is handled beside it.
        taken: when its messages were received, monotonic seconds.
        began: when the handler was called; None before.
        ended: when it ended; None before.
        error: what it raised; None if it returned.
        let_go: whether nobody waits for its end any more.
        cancel: stops it, where that is possible.
    """

    __slots__ = (
        "alone",
        "began",
        "cancel",
        "ended",
        "error",
        "lane",
        "leases",
        "let_go",
        "taken",
    )

    def __init__(self, lane: Lane, leases: list[Lease], taken: float) -> None:
        self.lane = lane
        self.leases = leases
        self.taken = taken
        self.alone = False
        self.began: float | None = None
        self.ended: float | None = None
        self.error: BaseException | None = None
        self.let_go = False
        self.cancel: Callable[[], object] | None = None
        for lease in leases:
            lease.job = self
