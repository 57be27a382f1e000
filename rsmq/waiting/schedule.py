"""
The schedule of waiting receives: which waiter is woken next, and when. Without I/O or clock.

A waiting receive sends nothing while there is nothing to receive. One connection of its client
tracks the queues: a server that reads a key on such a connection reports the next change of that
key, once. So each report must be followed by another read, or the queue is silent forever. For each
queue, the schedule knows one of these:

- Not read: the server reports nothing. It becomes awaited when the first waiter is added.
- Awaited: a read is requested, and its reply has not arrived. A change that is reported meanwhile
  needs no further read: the server reports it before it replies to a later command.
- Read: the queue was empty, or its first message is due at a known time. This is valid until the
  next report, whichever waiters are added and removed.
- Read planned: it has changed, and the read is put off. ``wake_at`` is then the time of the read.

A report makes a queue not read, and the rules below say what is next. ``tracking.py`` sends reads
and passes replies and reports on, ``watcher_state.py`` decides when, and ``threads.py`` and
``asyncio_.py`` carry it out.

Why it does not wake all waiters of a queue: one message would run the script of every process that
waits. So of the waiters of a queue, one is woken at a time. It leaves the schedule, and is added
again if its receive is empty. If it receives a message, the queue changes, and the report decides
about the next one. If it does neither, the next one is woken after PATIENCE_SECONDS. A waiter of
several queues may receive from any of them, so its receive also wakes the next waiter of each that
has a message.

Several processes do not know of each other, and the server reports to all of them. These rules
keep most of them quiet:

- If the last read found the queue empty, any change is a new message: one waiter is woken at once,
  without a read before.
- A miss is a wake-up for a message that another process received. After a miss, a change wakes no
  waiter before a read has found a message that is due. After more misses, the read is made after a
  random pause, at most the longest of MISS_PAUSE_SECONDS, and so is a wake-up for a message that
  becomes due. So one of many idle processes receives a message before the others run a script for
  it, and if that process has stopped, another one does so. A receive halves the number of misses.
- If a waiter receives nothing although a message was due (another consumer was faster, or the id
  has no body yet), the next waiter is woken after a pause that grows to half a second, or at the
  next change.

A queue may have limits: a message that is due may not be received yet. The reply to a receive says
for how long, and until then no waiter of the queue is woken. A limit of messages in flight also
ends by a change of the queue, so after a change a waiter asks, with the pauses after misses. A rate
does not.

Two nets are below all this. Every 15 to 30 seconds a waiter is woken without a reason, in case that
a report was lost. And while the server does not report changes, waiters poll, less and less often.

Some of it is ugly. A read concerns one queue, but a waiter may wait for thousands, so each of its
steps loops over them. And a planned wake-up that is replaced stays in the heap, and is recognized
by its time.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Mapping

from rsmq.transport.backoff import exponential_seconds, with_jitter
from rsmq.wire.keys import is_job
from rsmq.wire.throttle import NO_LIMITS, Limit

#: The shortest time after which a waiter is woken without a reason; the longest is twice as long,
#: so that clients do not act at the same moment.
SAFETY_SECONDS = 15.0
#: How long a message that is due wakes no waiter, by the number of empty receives in a row of the
#: last waiter that was woken.
QUIET_SECONDS = (0.005, 0.05, 0.5)
#: The longest random pause after a change, or after a message becomes due, by the number of misses.
#: The shortest is a fifth of it: in this time the fastest process receives the message.
MISS_PAUSE_SECONDS = (0.0, 0.0, 0.02, 0.05, 0.1, 0.2, 0.4)
#: After this time without a change the next waiter is woken, if the last one was not added again.
PATIENCE_SECONDS = 1.0
#: The pause between polls of a queue whose changes the server does not report: doubled from the
#: first to the longest, and varied by a quarter. Polling a thousand queues costs as much as
#: polling one queue twice.
FIRST_POLL_SECONDS = 0.01
LONGEST_POLL_SECONDS = 1 / 3
#: The shortest pause between polls while the first tracking connection is being opened.
CONNECTING_POLL_SECONDS = 0.1
_QUEUES_OF_DOUBLE_COST = 1000
#: The number of queues without a waiter whose last read is kept.
_MAX_KEPT_STATES = 20_000


class Waiter:
    """
    A waiting receive.

    Attributes:
        queues: the sorted sets of the queues that it waits for.
        is_awake: whether it was woken, and has not been added again since.
        empty_receives: the number of receives after a wake-up that returned nothing.
        reason: the queue that it was woken for last.
        receives_before: the number of receives of messages by all waiters before it was woken for a
            message; None if it was woken without one.
        failure: why it was woken by a watcher that has failed; None if it was not.
        limits: the limits by which its last receive returned nothing, by queue.
        woken_at: when it was woken last, as a number of the schedule's counter.
    """

    __slots__ = (
        "_wake", "empty_receives", "failure", "is_awake", "limits", "queues", "reason",
        "receives_before", "woken_at",
    )  # fmt: skip

    def __init__(self, queues: tuple[bytes, ...], wake: Callable[[], object]) -> None:
        self.queues: tuple[bytes, ...] = queues
        self.is_awake: bool = False
        self.empty_receives: int = 0
        self.reason: bytes | None = None
        self.receives_before: int | None = None
        self.failure: BaseException | None = None
        self.limits: dict[bytes, Limit] = {}
        self.woken_at: int = -1
        self._wake = wake

    def wake(self) -> None:
        self.is_awake = True
        self._wake()

    def note_limits(self, received: object) -> None:
        """Note the limits in an empty result of a receive from its queues."""
        limits: Mapping[int, Limit] = getattr(received, "limits", NO_LIMITS)
        self.limits = {self.queues[place]: limit for place, limit in limits.items()}

    def raise_failure(self) -> None:
        """
        Raise an error if the watcher has failed. The next wait starts it again.

        Raises:
            RuntimeError: the watcher has failed.
        """
        if self.failure is not None:
            kind = type(self.failure).__name__
            raise RuntimeError(
                f"Waiting for messages has failed: {kind}: {self.failure}"
            ) from self.failure


class _QueueState:
    """
    The waiters of a queue in their order, and the result of its last read.

    Attributes:
        waiters: a dict, which keeps the order.
        is_read: whether the queue has been read, or is to be read, since its last change.
        is_awaited: whether a read was requested whose reply has not arrived.
        is_read_planned: whether it is to be read at ``wake_at``, instead of a wake-up.
        is_empty: whether the last read found no message, and there was no change since.
        due_at: when the first message is due, by the last read; infinite without a message.
        is_listed: whether the name is in the index of queues; None if it was not looked up.
        index_version: the version of the index when the last waiter left.
        misses: the number of misses, halved by each receive of a message.
        quiet_until: until this time a message that is due wakes no waiter.
        tracked_at: when the reply to the last read arrived, as a number of the schedule's counter:
            the server has reported each change since; infinite if it was not read since a change.
        limited_until: until this time the limits of the queue allow no receive, by the last reply.
        is_rate_limited: whether no change of the queue ends that earlier.
        safety_at: when a waiter is woken without a reason.
        wake_at: when a waiter is woken if there is no change before.
    """

    __slots__ = (
        "due_at", "index_version", "is_awaited", "is_empty", "is_listed", "is_rate_limited",
        "is_read", "is_read_planned", "limited_until", "misses", "quiet_until", "safety_at",
        "tracked_at", "waiters", "wake_at",
    )  # fmt: skip

    def __init__(self) -> None:
        self.waiters: dict[Waiter, None] = {}
        self.is_listed: bool | None = None
        self.index_version = 0
        self.misses = 0
        self.is_awaited = False
        self.quiet_until = self.limited_until = -math.inf
        self.is_rate_limited = False
        self.safety_at = self.wake_at = math.inf
        self.reset()

    def reset(self) -> None:
        """Forget the last read."""
        self.is_read = self.is_read_planned = self.is_empty = False
        self.due_at = math.inf
        self.note_change()

    def note_change(self) -> None:
        """Note that messages may have left the queue."""
        self.tracked_at = math.inf
        if not self.is_rate_limited:
            self.limited_until = -math.inf

    @property
    def ready_at(self) -> float:
        """When a waiter is to be woken for a message, if nothing changes before."""
        return max(self.due_at, self.quiet_until, self.limited_until)

    @property
    def is_deleted(self) -> bool:
        """Whether the queue seems to be deleted: no message, and not in the index."""
        return self.is_empty and self.is_listed is False

    @property
    def miss_pause(self) -> float:
        """A random pause, in which another process may receive a message."""
        return with_jitter(MISS_PAUSE_SECONDS[self.misses], 0.2)


class Schedule:
    """
    All waiters of one client. Not thread-safe: the caller makes calls one after another.

    Attributes:
        is_tracking: whether the server reports changes.
        is_connecting: whether the first tracking connection is being opened.
        to_read: the queues to read.
        to_look_up: the queues with waiters whose names are to be looked up in the index.
    """

    def __init__(self, *, is_connecting: bool = False) -> None:
        self.is_tracking = False
        self.is_connecting = is_connecting
        self.to_read: set[bytes] = set()
        self.to_look_up: set[bytes] = set()
        self._states: dict[bytes, _QueueState] = {}
        #: The queues that have waiters.
        self._waited_for: dict[bytes, None] = {}
        #: A heap of planned wake-ups. Replaced ones stay in it until their time.
        self._planned: list[tuple[float, int, bytes]] = []
        self._counter = itertools.count()
        #: By queue without reports of changes: the number of empty polls in a row.
        self._empty_polls: dict[bytes, int] = {}
        #: The number of receives of messages after wake-ups.
        self._receives = 0
        #: The number of changes of the index of queues.
        self._index_version = 0

    def __bool__(self) -> bool:
        return bool(self._waited_for)

    def add(self, waiter: Waiter, now: float) -> None:
        """Add a waiter, for the first time or after an empty receive."""
        if waiter.is_awake and waiter.receives_before == self._receives:
            self._count_miss(waiter)
        waiter.is_awake = False
        waiter.failure = None
        safety_at = now + _safety_seconds()  # it has just received from all its queues
        for queue in waiter.queues:
            state = self._states.get(queue)
            if state is None:
                state = self._states[queue] = _QueueState()
            if state.is_listed is None or (
                not state.waiters and state.index_version != self._index_version
            ):
                self.to_look_up.add(queue)
            state.waiters[waiter] = None
            self._waited_for[queue] = None
            state.safety_at = safety_at
            if waiter.empty_receives or waiter.limits:
                self._note_empty_receive(queue, state, waiter, now)
            if not self.is_tracking:
                polls = self._empty_polls.get(queue, 0) + bool(waiter.empty_receives)
                self._empty_polls[queue] = polls
                wake_at = min(state.wake_at, self._next_poll_at(queue, state, now))
                self._plan_wake_up(queue, state, wake_at)
            elif state.is_read:
                wake_at = min(safety_at, state.ready_at)
                self._plan_wake_up(queue, state, wake_at)
            elif not state.is_read_planned:
                self._request_read(queue, state)
                self._plan_wake_up(queue, state, safety_at)

    def remove(self, waiter: Waiter) -> None:
        """Remove a waiter from all its queues."""
        for queue in waiter.queues:
            state = self._states.get(queue)
            if state is not None and waiter in state.waiters:
                del state.waiters[waiter]
                if not state.waiters:
                    self._remove_waited_for(queue, state)

    def note_receive(self, waiter: Waiter, now: float) -> None:
        """Note that a woken waiter received messages from one of its queues."""
        self._receives += 1
        for queue in waiter.queues:
            self._empty_polls.pop(queue, None)
            state = self._states.get(queue)
            if state is not None:
                state.misses //= 2
        # The queue that it received from is reported and read again. The others are not, so other
        # waiters of a queue with a message that is due are woken here.
        # The record of a tracked message changes no more.
        if not self.is_tracking or len(waiter.queues) > 1 or any(map(is_job, waiter.queues)):
            for queue in waiter.queues:
                state = self._states.get(queue)
                if state is not None and (not self.is_tracking or state.ready_at <= now):
                    self._wake_first(queue, now)

    def note_interruption(self, waiter: Waiter, now: float) -> None:
        """Note that a woken waiter ended without a receive: the next one is woken instead."""
        if waiter.reason is not None:
            self._wake_first(waiter.reason, now)

    def note_first_due(self, queue: bytes, due_in: float | None, now: float) -> None:
        """
        Note the result of a read.

        Args:
            queue: the queue that was read.
            due_in: seconds until the first message is due, 0 or less if it is; None without a
                message.
        """
        state = self._states.get(queue)
        if state is None:
            return
        state.is_awaited = False
        if not state.is_read:
            return
        state.tracked_at = next(self._counter)
        state.is_empty = due_in is None
        if due_in is None:
            state.due_at = math.inf
        elif due_in > 0:
            state.due_at = now + due_in + state.miss_pause
            state.quiet_until = -math.inf
        else:
            state.due_at = 0
        self._wake_if_due(queue, state, now)

    def note_listed(self, queue: bytes, now: float, *, is_listed: bool) -> None:
        """Note whether the name of a queue is in the index of queues."""
        state = self._states.get(queue)
        if state is None:
            return
        was_deleted, state.is_listed = state.is_deleted, is_listed
        if state.is_deleted and not was_deleted:
            self._wake_first(queue, now)

    def note_failed_read(self, queue: bytes, now: float) -> None:
        """Note that a read failed: the receive of the next waiter raises the error."""
        state = self._states.get(queue)
        if state is not None:
            state.is_awaited = False
            state.reset()  # also without a waiter now: the next one must not rely on this read
            if state.waiters:
                self._plan_wake_up(queue, state, now + PATIENCE_SECONDS)

    def note_change(self, queue: bytes, now: float) -> None:
        """Note that the server reported a change of a queue."""
        state = self._states.get(queue)
        if state is None:
            return
        was_limited = state.limited_until > now
        state.note_change()
        if state.is_read_planned:
            return
        state.quiet_until = -math.inf
        if state.is_awaited:  # the change is included in the read
            return
        is_new_message = state.is_empty and not state.misses and state.limited_until <= now
        due_at = math.inf if was_limited else max(state.due_at, now)
        state.reset()
        if not state.waiters:
            return
        pause = state.miss_pause
        if pause:
            state.is_read_planned = True
            self._plan_wake_up(queue, state, min(now + pause, due_at))
            return
        if is_new_message:
            self._wake_first(queue, now, is_for_message=True)
        if state.waiters:
            self._request_read(queue, state)
            if not is_new_message:
                self._plan_wake_up(queue, state, state.safety_at)

    def note_flush(self, now: float) -> None:
        """Note that the server reported a change of all keys."""
        for queue in list(self._states):
            state = self._states[queue]
            state.is_listed = None
            state.is_empty = False  # a flush is not a new message: the queue is read first
            self.note_change(queue, now)
        self.note_index_change()

    def note_index_change(self) -> None:
        """Note that queues were created or deleted."""
        self._index_version += 1
        self.to_look_up.update(self._waited_for)

    def start_tracking(self, now: float) -> None:
        """Note that the server reports changes from now on, of each queue that is read."""
        self.is_tracking = True
        self.is_connecting = False
        for queue in self._waited_for:
            state = self._states[queue]
            state.reset()
            self._request_read(queue, state)
            self._plan_wake_up(queue, state, max(state.safety_at, now))

    def stop_tracking(self, now: float) -> None:
        """Note that the server does not report changes any longer."""
        self.is_tracking = False
        self.to_read.clear()
        self._states = {queue: self._states[queue] for queue in self._waited_for}
        self.note_index_change()
        for queue, state in self._states.items():
            state.reset()
            state.is_awaited = False
            state.is_listed = None
            first_poll = now + FIRST_POLL_SECONDS * _poll_cost(state)
            self._plan_wake_up(queue, state, min(state.wake_at, first_poll))

    def next_wake_up(self) -> float:
        """Return when to call wake_due, or an earlier time."""
        return self._planned[0][0] if self._planned else math.inf

    def wake_due(self, now: float) -> float:
        """Wake the waiters whose time has come; return when to call this again."""
        while self._planned:
            at, _, queue = self._planned[0]
            state = self._states.get(queue)
            if state is None or state.wake_at != at or not state.waiters:
                heapq.heappop(self._planned)  # it was replaced
            elif at <= now:
                heapq.heappop(self._planned)
                if state.is_read_planned:
                    state.is_read_planned = False
                    self._request_read(queue, state)
                    self._plan_wake_up(queue, state, state.safety_at)
                else:
                    self._wake_first(queue, now)
            else:
                return at
        return math.inf

    def wake_all(self, failure: BaseException | None = None) -> None:
        """
        Wake all waiters.

        Args:
            failure: why the watcher has failed; None if it has not.
        """
        waiters = [waiter for queue in self._waited_for for waiter in self._states[queue].waiters]
        for waiter in dict.fromkeys(waiters):  # one waiter may wait for several queues
            self.remove(waiter)
            waiter.reason = None
            waiter.failure = failure
            waiter.wake()

    def _note_empty_receive(
        self, queue: bytes, state: _QueueState, waiter: Waiter, now: float
    ) -> None:
        if queue in waiter.limits:
            self._note_limit(state, waiter.limits[queue], now, waiter.woken_at)
        # Nothing was due by the last read: the receive was for a message that is not visible yet.
        is_in_vain = not state.is_read or state.is_awaited or state.due_at <= now
        if waiter.empty_receives and is_in_vain and state.limited_until <= now:
            quiet = QUIET_SECONDS[min(waiter.empty_receives, len(QUIET_SECONDS)) - 1]
            state.quiet_until = now + quiet

    def _note_limit(self, state: _QueueState, limit: Limit, now: float, asked_at: float) -> None:
        """
        Note that a limit of a queue allows no receive.

        A message may have left the queue since. So a limit of messages in flight counts only if the
        server reports each change since the receive began; else the next read wakes a waiter, which
        asks again.

        Args:
            asked_at: a time before the receive, as a number of the counter.
        """
        if not limit.is_rate and self.is_tracking and state.tracked_at > asked_at:
            return
        state.limited_until = now + limit.seconds + state.miss_pause
        state.is_rate_limited = limit.is_rate

    def _request_read(self, queue: bytes, state: _QueueState) -> None:
        state.is_read = state.is_awaited = True
        self.to_read.add(queue)

    def _wake_if_due(self, queue: bytes, state: _QueueState, now: float) -> None:
        if not state.waiters:
            return
        at = state.ready_at
        if at <= now or state.is_deleted:
            self._wake_first(queue, now)
        else:
            self._plan_wake_up(queue, state, min(at, state.safety_at))

    def _plan_wake_up(self, queue: bytes, state: _QueueState, at: float) -> None:
        """Plan the next wake-up of a queue; it replaces the one that was planned before."""
        if state.wake_at == at and not math.isinf(at):
            return
        state.wake_at = at
        if math.isinf(at):
            return
        heapq.heappush(self._planned, (at, next(self._counter), queue))
        if len(self._planned) > 4 * len(self._waited_for) + 1000:
            self._planned = [
                (state.wake_at, next(self._counter), queue)
                for queue, state in self._states.items()
                if state.waiters and not math.isinf(state.wake_at)
            ]
            heapq.heapify(self._planned)

    def _remove_waited_for(self, queue: bytes, state: _QueueState) -> None:
        """Note that the last waiter left; the state is kept if changes are reported."""
        del self._waited_for[queue]
        state.wake_at = math.inf
        state.is_read_planned = False
        state.index_version = self._index_version
        if queue in self.to_look_up:
            self.to_look_up.discard(queue)
            state.is_listed = None
        kept = len(self._states) - len(self._waited_for)
        if not self.is_tracking or kept > _MAX_KEPT_STATES or is_job(queue):
            del self._states[queue]
            self.to_read.discard(queue)

    def _poll_pause(self, queue: bytes, state: _QueueState) -> float:
        polls = self._empty_polls.get(queue, 0)
        longest = exponential_seconds(polls + 1, FIRST_POLL_SECONDS, LONGEST_POLL_SECONDS)
        if self.is_connecting:
            longest = max(longest, CONNECTING_POLL_SECONDS)
        return with_jitter(longest * _poll_cost(state), 0.75)

    def _next_poll_at(self, queue: bytes, state: _QueueState, now: float) -> float:
        poll_at = now + self._poll_pause(queue, state)
        if state.limited_until <= now:
            return poll_at
        return state.limited_until if state.is_rate_limited else min(state.limited_until, poll_at)

    def _count_miss(self, waiter: Waiter) -> None:
        state = None if waiter.reason is None else self._states.get(waiter.reason)
        if state is not None:
            state.misses = min(state.misses + 1, len(MISS_PAUSE_SECONDS) - 1)

    def _wake_first(self, queue: bytes, now: float, *, is_for_message: bool = False) -> None:
        state = self._states.get(queue)
        if state is not None and state.waiters:
            is_for_message = is_for_message or state.due_at <= now
            waiter = next(iter(state.waiters))
            pause = PATIENCE_SECONDS if self.is_tracking else self._poll_pause(queue, state)
            self.remove(waiter)
            if state.waiters and not state.is_read_planned:
                self._plan_wake_up(queue, state, now + pause)
            waiter.reason = queue
            waiter.woken_at = next(self._counter)
            waiter.receives_before = self._receives if is_for_message else None
            waiter.wake()


def _poll_cost(state: _QueueState) -> float:
    """Return the cost of a poll by the next waiter of a queue, in polls of one queue."""
    waiter = next(iter(state.waiters), None)
    return 1 if waiter is None else 1 + (len(waiter.queues) - 1) / _QUEUES_OF_DOUBLE_COST


def _safety_seconds() -> float:
    return with_jitter(SAFETY_SECONDS, 1.0, 2.0)
