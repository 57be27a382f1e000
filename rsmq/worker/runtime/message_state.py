"""
The state of listeners, of handler calls, and of the messages that a worker has in flight.

Most calls are for one message. Then one object is both the call and the lease of its message.
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
from rsmq.worker.listener import MIN_VT_SECONDS, Listener
from rsmq.worker.outcome import Policy

#: Prefetch as many messages as are handled in this time, or in this share of the visibility timeout
#: if that is shorter; at most MAX_PREFETCHED messages.
PREFETCH_SECONDS = 0.1
PREFETCH_VT_SHARE = 0.1
MAX_PREFETCHED = 1000
#: The weight of the latest call in the moving average of durations.
_LATEST_WEIGHT = 0.1


@dataclass(slots=True, eq=False)
class Lane:
    """
    The runtime state of a listener.

    Attributes:
        listener: the listener.
        keys: the keys of its queue.
        vt: its visibility timeout, seconds.
        codec: decodes bodies.
        limit: maximum number of concurrent calls.
        policy: its listener's policy, or the queue's own policy where the listener sets neither
            a dead-letter queue nor ``drop``.
        ready: calls that wait for a slot.
        calls: running calls, in the order in which they started.
        last_turn: the turn in which one of its calls last started; all lanes share the count.
        urgent_count: how many of its next calls start before calls of a higher priority.
        in_flight: all messages that are not settled, by id.
        renew_at: monotonic seconds at which the first of them is to be extended.
        last_request_at: monotonic seconds of the last receive, or of the wake-up after it.
        closed_reason: why nothing is received: 'p' paused, 'm' missing, 'b' broken; '' if the
            queue is open, as far as the worker knows.
        mean_seconds: the moving average of a call's duration; None before the first call ends.
        no_prefetch_until: monotonic seconds until which nothing is prefetched.
        is_missing_logged: whether it was logged that the queue is missing.
        waiter: woken when messages become due. None if more may be due already, or nothing is
            to be received.
        cancel: cancels a call, if its kind can be cancelled.
    """

    listener: Listener
    keys: QueueKeys
    vt: float
    codec: Codec
    limit: int
    policy: Policy
    ready: deque[Job] = field(default_factory=deque)
    calls: dict[Job, None] = field(default_factory=dict)
    last_turn: int = 0
    urgent_count: int = 0
    in_flight: dict[str, Lease] = field(default_factory=dict)
    renew_at: float = math.inf
    last_request_at: float = field(default_factory=time.monotonic)
    closed_reason: str = ""
    mean_seconds: float | None = None
    no_prefetch_until: float = 0.0
    waiter: Waiter | None = None
    is_missing_logged: bool = False
    cancel: Callable[[Job], object] = field(default=lambda _job: None)

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.listener.queue

    @property
    def size(self) -> int:
        """The maximum number of messages of a call."""
        return self.listener.batch or 1

    @property
    def is_async(self) -> bool:
        """Return whether its handlers run as tasks."""
        return self.listener.handlers.is_async

    @property
    def uses_queue_attributes(self) -> bool:
        """Return whether one of its settings comes from the queue's attributes."""
        policy = self.listener.policy
        return self.listener.vt is None or (policy.dead_letter_queue is None and not policy.drop)

    @property
    def is_waiting(self) -> bool:
        """Return whether nothing is due in its queue, as far as the worker knows."""
        return self.waiter is not None and not self.waiter.is_awake

    def prefetch_limit(self, now: float) -> int:
        """
        Return how many messages may wait for a slot: so few that they start soon.

        Args:
            now: monotonic seconds.
        """
        if self.mean_seconds is None or now < self.no_prefetch_until:
            return 0
        oldest = next(iter(self.calls), None)
        age = 0.0 if oldest is None or oldest.started_at is None else now - oldest.started_at
        seconds = min(PREFETCH_SECONDS, self.vt * PREFETCH_VT_SHARE)
        calls = seconds / max(self.mean_seconds, age, 1e-7) * self.limit
        return int(min(calls * self.size, MAX_PREFETCHED))

    def record_duration(self, seconds: float) -> None:
        """Add the duration of a finished call to the moving average."""
        mean = self.mean_seconds
        self.mean_seconds = seconds if mean is None else mean + _LATEST_WEIGHT * (seconds - mean)

    def apply_queue_attributes(self, attributes: QueueAttributes) -> None:
        """Use the queue's vt and dead-letter policy where the listener does not set its own."""
        if self.listener.vt is None and attributes.vt >= MIN_VT_SECONDS:
            self.vt = attributes.vt
        policy = self.listener.policy
        target, limit = attributes.dead_letter_queue, attributes.max_receives
        if policy.dead_letter_queue is None and not policy.drop:
            if target is not None and limit is not None and target != self.name:
                policy = replace(policy, dead_letter_queue=target, max_retries=max(limit - 1, 0))
            self.policy = policy


class Lease(Protocol):
    """
    A message in flight. All times are monotonic seconds of this process.

    Attributes:
        id: the message's id.
        raw: its body.
        count: its receive count, which is the number of the attempt.
        first_received_ms: Unix ms of its first receive; None if another client stored none.
        renew_at: when its visibility timeout is to be extended.
        expires_at: when its visibility timeout ends if it is not extended.
        is_lost: whether the lease is lost: another consumer may have received the message.
        is_loss_reported: see ``DeliveredLease``.
        error: the error of this message; None if there is none.
        job: the call that it is for.
    """

    id: str
    raw: bytes
    count: int
    first_received_ms: int | None
    renew_at: float
    expires_at: float
    is_lost: bool
    is_loss_reported: bool
    error: BaseException | None

    @property
    def job(self) -> Job:
        """The call that it is for."""

    def to_delivery(self, queue: str, codec: Codec) -> Delivery:
        """Return the message as its handler receives it."""


class _Deliverable:
    """A lease that can be passed to a handler."""

    __slots__ = ()

    def to_delivery(self: Lease, queue: str, codec: Codec) -> Delivery:
        """Return the message as its handler receives it."""
        return make_delivery(self, queue, codec)


class Job(Protocol):
    """
    A call of a handler: waiting for a slot, running or finished.

    Attributes:
        lane: the lane whose handler is called.
        is_quarantined: whether it runs in quarantine.
        received_at: monotonic seconds at which its messages were requested.
        started_at: monotonic seconds at which the handler was called; None before.
        ended_at: monotonic seconds at which the handler ended; None before.
        error: the exception of the handler; None if it returned.
        is_abandoned: whether the worker no longer waits for its end.
        task: the task that runs it, if it can be cancelled.
        is_cancelled: whether it was cancelled.
        is_urgent: whether it starts before calls of a higher priority.
    """

    lane: Lane
    is_quarantined: bool
    received_at: float
    started_at: float | None
    ended_at: float | None
    error: BaseException | None
    is_abandoned: bool
    task: Any
    is_cancelled: bool
    is_urgent: bool

    @property
    def leases(self) -> Sequence[Lease]:
        """The messages of the call: one, or those of a batch."""


class SingleJob(_Deliverable):
    """A message and the call for it, in one object."""

    __slots__ = (
        "count",
        "ended_at",
        "error",
        "expires_at",
        "first_received_ms",
        "id",
        "is_abandoned",
        "is_cancelled",
        "is_loss_reported",
        "is_lost",
        "is_quarantined",
        "is_urgent",
        "lane",
        "raw",
        "received_at",
        "renew_at",
        "started_at",
        "task",
    )

    def __init__(  # noqa: PLR0917 - made for every message
        self,
        lane: Lane,
        id: str,
        raw: bytes,
        count: int,
        first_received_ms: int | None,
        received_at: float,
    ) -> None:
        self.lane = lane
        self.id = id
        self.raw = raw
        self.count = count
        self.first_received_ms = first_received_ms
        self.received_at = received_at
        self.renew_at = received_at + lane.vt / 3
        self.expires_at = received_at + lane.vt
        self.is_lost = self.is_loss_reported = self.is_quarantined = False
        self.is_abandoned = self.is_cancelled = self.is_urgent = False
        self.started_at: float | None = None
        self.ended_at: float | None = None
        self.error: BaseException | None = None
        self.task: Any = None

    @property
    def job(self) -> SingleJob:
        """This object."""
        return self

    @property
    def leases(self) -> Sequence[Lease]:
        """This object, as the only message of the call."""
        return (self,)


class BatchMessage(_Deliverable):
    """A message of a batch."""

    __slots__ = (
        "_job",
        "count",
        "error",
        "expires_at",
        "first_received_ms",
        "id",
        "is_loss_reported",
        "is_lost",
        "raw",
        "renew_at",
    )

    def __init__(self, job: BatchJob, single: SingleJob) -> None:
        """Copy the message from a job that was made for it alone."""
        self._job = job
        self.id = single.id
        self.raw = single.raw
        self.count = single.count
        self.first_received_ms = single.first_received_ms
        self.renew_at = single.renew_at
        self.expires_at = single.expires_at
        self.is_lost = self.is_loss_reported = False
        self.error: BaseException | None = None

    @property
    def job(self) -> BatchJob:
        """The call."""
        return self._job


class BatchJob:
    """A call for several messages."""

    __slots__ = (
        "_leases",
        "ended_at",
        "error",
        "is_abandoned",
        "is_cancelled",
        "is_quarantined",
        "is_urgent",
        "lane",
        "received_at",
        "started_at",
        "task",
    )

    def __init__(self, lane: Lane, singles: Sequence[SingleJob], received_at: float) -> None:
        self.lane = lane
        self.received_at = received_at
        self.is_quarantined = self.is_abandoned = self.is_cancelled = self.is_urgent = False
        self.started_at: float | None = None
        self.ended_at: float | None = None
        self.error: BaseException | None = None
        self.task: Any = None
        self._leases = [BatchMessage(self, single) for single in singles]

    @property
    def leases(self) -> Sequence[Lease]:
        """The messages."""
        return self._leases
