"""
A listener at work: what is ready for its handler, what is under way, and how long a call takes.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from rsmq.codecs import Codec
from rsmq.model import QueueAttributes
from rsmq.waiting.schedule import Waiter
from rsmq.wire.keys import QueueKeys
from rsmq.worker.listener import SHORTEST_VT, Listener
from rsmq.worker.outcome import Policy
from rsmq.worker.runtime.lease import Job, Lease

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
        return self.waiter is not None and not self.waiter.awake

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
