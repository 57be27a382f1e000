"""
The state of listeners, of handler calls, and of the messages that a worker holds.

Most calls are for one message: then both are one object, of which there is one a message.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from rsmq.codecs import Codec
from rsmq.model import QueueAttributes
from rsmq.waiting.schedule import Waiter
from rsmq.wire.keys import QueueKeys
from rsmq.worker.delivery import Delivery, make_delivery
from rsmq.worker.listener import SHORTEST_VT, Listener
from rsmq.worker.outcome import Policy

#: Messages that wait for a slot are what is handled in this time, seconds, or in this part of the
#: visibility timeout; at most so many.
AHEAD = 0.1
AHEAD_OF_VT = 0.1
MOST_AHEAD = 1000
#: How much of the mean duration of a call the latest one makes up.
_WEIGHT = 0.1


@dataclass(slots=True, eq=False)
class Lane:
    """
    A listener at work.

    Attributes:
        listener: which.
        keys: its queue's.
        vt: its visibility timeout, seconds.
        codec: how bodies become values.
        limit: calls at once at most.
        policy: its listener's; where that names no dead-letter queue, the queue's own.
        ready: calls to be made.
        calls: calls under way, in the order in which they began.
        turn: when it had its last turn, in a count of all turns.
        urgent: how many of its next calls go before those of a higher priority.
        held: all messages that are not settled, by id.
        renew_at: when the first of them is to be extended; monotonic seconds.
        asked_at: when the queue was looked at last.
        closed: whether the queue is paused or missing, as far as is known.
        mean: how long a call takes, seconds; None before the first.
        careful_until: until when nothing is taken ahead.
        missed: whether it was said that the queue is missing.
        waiter: who is told of messages; None where there may be some without that.
        cancel: ends a call, where that is possible.
    """

    listener: Listener
    keys: QueueKeys
    vt: float
    codec: Codec
    limit: int
    policy: Policy
    ready: deque[Job] = field(default_factory=deque)
    calls: dict[Job, None] = field(default_factory=dict)
    turn: int = 0
    urgent: int = 0
    held: dict[str, Lease] = field(default_factory=dict)
    renew_at: float = math.inf
    asked_at: float = field(default_factory=time.monotonic)
    closed: str = ""
    mean: float | None = None
    careful_until: float = 0.0
    waiter: Waiter | None = None
    missed: bool = False
    cancel: Callable[[Job], object] = field(default=lambda _job: None)

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.listener.queue

    @property
    def size(self) -> int:
        """Messages of a call."""
        return self.listener.batch or 1

    @property
    def is_async(self) -> bool:
        """Whether its handlers are tasks."""
        return self.listener.handlers.is_async

    @property
    def adopts(self) -> bool:
        """Whether something is as its queue says."""
        policy = self.listener.policy
        return self.listener.vt is None or (policy.dead_letter_queue is None and not policy.drop)

    @property
    def waits(self) -> bool:
        """Whether nothing is due in its queue, as far as is known."""
        return self.waiter is not None and not self.waiter.is_awake

    def ahead(self, now: float) -> int:
        """How many messages may wait for a slot: few enough to be begun soon."""
        if self.mean is None or now < self.careful_until:
            return 0
        oldest = next(iter(self.calls), None)
        age = 0.0 if oldest is None or oldest.began is None else now - oldest.began
        seconds = min(AHEAD, self.vt * AHEAD_OF_VT)
        calls = seconds / max(self.mean, age, 1e-7) * self.limit
        return int(min(calls * self.size, MOST_AHEAD))

    def took(self, seconds: float) -> None:
        """A call has taken so long."""
        mean = self.mean
        self.mean = seconds if mean is None else mean + _WEIGHT * (seconds - mean)

    def adopt(self, attributes: QueueAttributes) -> None:
        """Where the listener says nothing of vt or of dead letters, do as its queue says."""
        if self.listener.vt is None and attributes.vt >= SHORTEST_VT:
            self.vt = attributes.vt
        policy = self.listener.policy
        target, limit = attributes.dead_letter_queue, attributes.max_receives
        if policy.dead_letter_queue is None and not policy.drop:
            if target is not None and limit is not None and target != self.name:
                policy = replace(policy, dead_letter_queue=target, max_retries=max(limit - 1, 0))
            self.policy = policy


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
        return make_delivery(self, queue, codec)


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
