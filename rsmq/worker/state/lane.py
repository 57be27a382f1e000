"""
A lane: the runtime state of a listener and its queue.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, TypeAlias

from rsmq.codecs import Codec, bind_codec
from rsmq.model import QueueAttributes
from rsmq.wire.keys import QueueKeys
from rsmq.worker.listener import MIN_VT_SECONDS, Listener
from rsmq.worker.outcome import Policy
from rsmq.worker.state.arrivals import Arrivals
from rsmq.worker.state.in_flight import InFlight
from rsmq.worker.state.loop_state import QueueState
from rsmq.worker.state.message_state import READY
from rsmq.worker.stop_event import StopEvent

#: The calls and messages of a lane. ``calls.py``, which imports this module, has their types.
Job: TypeAlias = Any
Lease: TypeAlias = Any

#: Prefetch as many messages as are handled in this time, or in this share of the visibility timeout
#: if that is shorter; at most MAX_PREFETCHED messages.
PREFETCH_SECONDS = 0.1
PREFETCH_VT_SHARE = 0.1
MAX_PREFETCHED = 1000
#: The leases of tracked messages are extended so often: their workers learn then of a cancel.
MAX_TRACKED_RENEW_SECONDS = 2.0
#: The shortest time between two extensions of a lease that write its progress.
MIN_PROGRESS_SECONDS = 1.0
#: Leases of tracked messages are extended together if they are due within this time.
_RENEWAL_STEP_SECONDS = 0.25
#: The weight of the latest call in the moving average of durations.
_LATEST_WEIGHT = 0.1
#: The number of calls of a window; see ``slow_seconds``.
WINDOW_CALLS = 200


@dataclass(slots=True, eq=False)
class Lane:
    """
    The runtime state of a listener and its queue.

    Settings are written before the loop's thread starts; then only ``apply_queue_attributes``
    changes them. Any thread reads them without a lock. ``RunQueue`` writes with ``lock``; the loop
    reads without it where an old value does no harm.

    Attributes:
        listener: the listener. A setting.
        keys: the keys of its queue. A setting.
        vt: its visibility timeout, seconds. A setting.
        codec: decodes bodies. A setting.
        limit: maximum number of concurrent calls. A setting, which ``RunQueue.resize`` changes.
        reserved: how many slots are kept for its calls, at most ``limit``. A setting.
        limit_now: maximum number of concurrent calls at this moment: fewer than ``limit`` while the
            slots that others have not reserved are in use. Written by ``RunQueue``.
        policy: its listener's policy, or the queue's own policy where the listener sets neither
            a dead-letter queue nor ``drop``. A setting.
        fill_seconds: for how long a message may wait until its batch is full; None if batches do
            not wait. A setting.
        arrivals: whether its queue may have due messages. A setting, by ``WorkerLoop``; a child
            process, which receives nothing, has none.
        cancel: cancels a call, if its kind can be cancelled. A setting, by ``Worker``.
        time_out: cancels a call because of its max_runtime, if its kind can be cancelled. A
            setting, by ``Worker``.
        blocked_queues: the queues whose messages have to wait for each of its running calls,
            because these have the only slot. A setting, by ``note_blocked_queues``; emptied after
            the warning of ``warn_if_blocked``.
        renew_soon: asks for an early extension of the lease of a tracked message, because it has
            progress to be written; from any thread. A setting, by ``WorkerLoop``.
        stopping: set when the worker stops; all lanes of a worker have one. A setting, by
            ``WorkerLoop``, or by the program of a child process.
        lock: to be held while the state of a message or a call changes, unless the call has ended.
            A setting, by ``RunQueue``: all lanes of a worker have one lock.
        in_flight: the messages of its queue that are not settled. Only the loop's thread changes
            it.
        closed_reason: why nothing is received: 'p' paused, 'm' missing, 'b' broken; '' if the
            queue is open, as far as the worker knows. Written by ``close`` and ``open``, read by
            the loop, and by any thread for ``WorkerLoop.state``.
        fill_at: monotonic seconds at which a batch is received though it is not full. Written and
            read by ``Prefetcher``.
        ready: calls that wait for a slot. Written by ``RunQueue``.
        is_active: whether messages are received for its listener. Written by ``WorkerLoop``.
        is_stalled: whether its handlers can't be called at the moment. Written by ``Stalls``.
        calls: running calls of its listener, in the order in which they started: lanes of the
            levels of one listener have one record, because its concurrency limits them together.
            Written by ``RunQueue``.
        last_turn: the turn in which one of its calls last started; all lanes share the count.
            Written and read by ``RunQueue``.
        urgent_count: how many of its next calls start before calls of a higher priority. Written
            and read by ``RunQueue``.
        last_request_at: monotonic seconds of the last receive, or of the wake-up after it. Written
            by ``Prefetcher``, and by the watcher's thread; read when receives are planned.
        mean_seconds: the moving average of a call's duration; None before the first call ends.
            Written by ``record_duration`` in the loop's thread, read by ``RunQueue``.
        slow_seconds: the second longest duration of the calls of this window and the one before;
            None before the first call ends. Written by ``record_duration``.
        no_prefetch_until: monotonic seconds until which nothing is prefetched. Written by
            ``WorkerLoop``.
        main: the lane that receives its messages: itself, or the one whose variant it is. A
            setting.
        variants: the lanes of the parts of its listener. They share its messages in flight, its
            running calls and its limit. A setting.
    """

    listener: Listener
    keys: QueueKeys
    vt: float
    codec: Codec
    limit: int
    policy: Policy
    fill_seconds: float | None = None
    arrivals: Arrivals = field(init=False)
    in_flight: InFlight[Lease] = field(default_factory=InFlight)
    closed_reason: str = ""
    fill_at: float = math.inf
    is_active: bool = True
    is_stalled: bool = False
    ready: deque[Job] = field(default_factory=deque)
    calls: dict[Job, None] = field(default_factory=dict)
    last_turn: int = 0
    urgent_count: int = 0
    last_request_at: float = field(default_factory=time.monotonic)
    mean_seconds: float | None = None
    slow_seconds: float | None = None
    no_prefetch_until: float = 0.0
    blocked_queues: frozenset[str] = frozenset()
    cancel: Callable[[Job], object] = field(default=lambda _job: None)
    time_out: Callable[[Job], object] = field(default=lambda _job: None)
    renew_soon: Callable[[Any], object] = field(default=lambda _lease: None)
    stopping: StopEvent = field(default_factory=StopEvent)
    lock: threading.Lock = field(default_factory=threading.Lock)
    main: Lane = field(init=False)
    variants: list[Lane] = field(default_factory=list)
    reserved: int = field(init=False)
    limit_now: int = field(init=False)
    _window_calls: int = 0
    _longest: tuple[float, float] = (0.0, 0.0)
    _longest_before: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        self.codec = bind_codec(self.codec, self.keys.zset)
        self.limit_now = self.limit
        self.reserved = min(self.listener.reserved, self.limit)
        self.main = self
        for part in self.listener.parts:
            lane = Lane(part, self.keys, self.vt, self.codec, self.limit, part.policy)
            lane._share(self)
            self.variants.append(lane)

    def _share(self, main: Lane) -> None:
        """Become a variant of a lane."""
        self.main, self.in_flight, self.calls = main, main.in_flight, main.calls
        self._use_vt_of(main)

    def _use_vt_of(self, main: Lane) -> None:
        self.vt = max(main.vt, self.listener.vt or 0.0)

    @property
    def parts(self) -> tuple[Lane, ...]:
        """This lane and its variants."""
        return (self, *self.variants)

    @property
    def queued(self) -> Sequence[Job]:
        """The calls of its queue that wait for a slot."""
        if not self.variants:
            return self.ready
        return list(chain.from_iterable([each.ready for each in self.parts]))

    def find_variant(self, raw: bytes) -> Lane:
        """Return the lane whose handlers are called with a body."""
        place = self.listener.find_part(raw)
        return self if place is None else self.variants[place]

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.listener.queue

    @property
    def renew_seconds(self) -> float:
        """How long after its last extension a lease is extended again, at the latest."""
        seconds = self.vt / 3
        is_tracked = self.listener.result_ttl is not None
        return min(seconds, MAX_TRACKED_RENEW_SECONDS) if is_tracked else seconds

    def renewal_after(self, sent_at: float) -> float:
        """Return when a lease is extended again that was extended at a time, monotonic seconds."""
        seconds = self.renew_seconds
        if self.listener.result_ttl is None or not seconds:  # a child process may have no vt
            return sent_at + seconds
        step = min(_RENEWAL_STEP_SECONDS, seconds / 2)
        return math.floor((sent_at + seconds) / step) * step

    def add(self, leases: Iterable[Lease], sent_at: float) -> None:
        """Add messages in flight that were requested at a time, in monotonic seconds."""
        self.in_flight.add(leases, self.renewal_after(sent_at))

    def renew_lease_soon(self, lease: Lease) -> None:
        """Let the lease of a message be extended soon, because it has progress to be written."""
        if lease in self.in_flight:
            extended_at = lease.expires_at - self.vt
            step = _RENEWAL_STEP_SECONDS
            at = max(extended_at + MIN_PROGRESS_SECONDS, time.monotonic())
            at = math.ceil(at / step) * step  # together with others
            self.in_flight.renew_by(lease, at)

    def close(self, reason: str) -> None:
        """Receive nothing more; see ``closed_reason``."""
        self.closed_reason = reason

    def open(self) -> None:
        """Receive again."""
        self.closed_reason = ""
        self.arrivals.stop()

    @property
    def is_closed(self) -> bool:
        """Return whether nothing is received from its queue, or its listener is stopped."""
        return self.is_stalled or not self.is_active or self.closed_reason != ""

    def state(self, now: float) -> QueueState:
        """
        Return its state at this moment; from any thread.

        Args:
            now: monotonic seconds.
        """
        return QueueState(
            self.vt,
            self.policy,
            self.closed_reason,
            len(self.in_flight),
            self._count_running(),
            self.is_waiting,
            self.prefetch_limit(now),
        )

    def own_calls(self) -> list[Job]:
        """Return the running calls of its queue; the lock is held."""
        return [job for job in self.calls if job.lane is self]

    def _count_running(self) -> int:
        """Return how many calls of its queue run; the lock is not held."""
        if self.listener.level_of is None:
            return len(self.calls)
        return sum(job.lane.main is self for job in tuple(self.calls))

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
        return self.arrivals.is_waiting

    def allowance(self) -> int | None:
        """Return how many messages its gate lets through now; None is any number."""
        gate = self.listener.gate
        allowed = None if gate is None else gate.allowance()
        if not allowed:
            return allowed
        ready = sum(lease.state is READY for lease in self.in_flight)
        return max(allowed - ready, 0)

    def prefetch_limit(self, now: float) -> int:
        """
        Return how many messages may wait for a slot: so few that they start soon.

        Args:
            now: monotonic seconds.
        """
        if self.slow_seconds is None or now < self.no_prefetch_until:
            return 0
        oldest = self._oldest_call()
        if oldest is not None and oldest.started_at is None:  # it waits for a child process
            return 0
        age = 0.0 if oldest is None or oldest.started_at is None else now - oldest.started_at
        seconds = min(PREFETCH_SECONDS, self.vt * PREFETCH_VT_SHARE)
        calls = seconds / max(self.slow_seconds, age, 1e-7) * self.limit
        return int(min(calls * self.size, MAX_PREFETCHED))

    def _oldest_call(self) -> Job | None:
        """Return the running call that started first; the lock is not held."""
        while True:
            try:
                return next(iter(self.calls), None)
            except RuntimeError:  # another thread has just started or ended a call
                continue

    def record_duration(self, seconds: float) -> None:
        """Update the average and the longest durations by a finished call."""
        mean = self.mean_seconds
        if mean is None:
            self.mean_seconds = self.slow_seconds = seconds
            self._longest = seconds, 0.0
        else:
            self.mean_seconds = mean + _LATEST_WEIGHT * (seconds - mean)
            if seconds > self._longest[1]:
                self._longest = max(self._longest[0], seconds), min(self._longest[0], seconds)
                self._update_slow_seconds()
        self._window_calls += 1
        if self._window_calls == WINDOW_CALLS:
            self._longest_before, self._longest = self._longest, (0.0, 0.0)
            self._window_calls = 0
            self._update_slow_seconds()

    def _update_slow_seconds(self) -> None:
        self.slow_seconds = sorted(self._longest + self._longest_before)[-2]

    def apply_queue_attributes(
        self, attributes: QueueAttributes, listener: Listener | None = None
    ) -> None:
        """
        Use the queue's vt and dead-letter policy where the listener does not set its own.

        Args:
            attributes: the attributes of the queue, as they are now.
            listener: replaces the listener, after its queue was missing; None keeps it.
        """
        if listener is not None:
            self.listener = listener
        if self.listener.vt is None and attributes.vt >= MIN_VT_SECONDS:
            self.vt = attributes.vt
        policy = self.listener.policy
        target, limit = attributes.dead_letter_queue, attributes.max_receives
        if policy.dead_letter_queue is None and not policy.drop:
            if target is not None and limit is not None and target != self.name:
                policy = replace(policy, dead_letter_queue=target, max_retries=max(limit - 1, 0))
            self.policy = policy
        for each in self.variants:
            each.apply_queue_attributes(attributes)
            each._use_vt_of(self)  # noqa: SLF001 - another of this class
