"""
The facts of a queue and of a message that say what they wait for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from rsmq.figures import HiddenCounts
from rsmq.figures.facts import LargestGroup, RepeatedReceives
from rsmq.jobs.status import JobStatus
from rsmq.model import DeadLetterReason, QueueAttributes
from rsmq.schedules.definition import StoredSchedule
from rsmq.search.redaction import Redaction
from rsmq.trash.deletion import Deletion
from rsmq.webhooks.breaker import TargetState
from rsmq.webhooks.shared_breaker import PushTarget
from rsmq.wire.groups import GroupName
from rsmq.wire.ids import is_redriven, parse_sent_us
from rsmq.wire.streams import StreamInfo
from rsmq.wire.throttle import Limit
from rsmq.wire.workers import StalledHandlers, WorkerInfo

#: Fewer messages that wait for a retry may each have a fault of their own.
_MIN_RETRYING = 3
#: Minutes of the history that a rate is computed from.
RATE_MINUTES = 10
#: A queue counts as not received from if nothing was received for so many minutes.
IDLE_MINUTES = 5
#: Receives may be of the time before a change of their queue for so many of its visibility
#: timeouts: one until a message is visible again, one until it is lost again; and for so long.
_SETTLING_TIMEOUTS, _SETTLING_SECONDS = 2, 60


def settling_end_ms(
    first_ms: float | None, changed: datetime | None, vt: float, now_ms: float
) -> float | None:
    """
    Return until when receives may be of the time before their queue was changed, Unix ms.

    Args:
        first_ms: Unix ms of the first receive of the message; of several messages, of the last.
        changed: when the attributes of the queue were set.
        vt: its visibility timeout, seconds.
        now_ms: the server's time, Unix ms.

    Returns:
        None if the message was received after the change, or if the change is long ago.
    """
    if first_ms is None or changed is None:
        return None
    changed_ms = changed.timestamp() * 1000
    end_ms = changed_ms + max(_SETTLING_TIMEOUTS * vt, _SETTLING_SECONDS) * 1000
    return end_ms if first_ms < changed_ms <= now_ms < end_ms else None


@dataclass(frozen=True, slots=True)
class QueueRates:
    """
    How fast a queue is filled and drained.

    Attributes:
        sent_per_minute: messages that were sent.
        received_per_minute: receives and pops, repeated receives included.
        seconds: the time in which they were counted.
        last: the same of the last two minutes, if they were recorded, without the time before the
            last resume: a queue that was paused a short time ago drains now, whatever the longer
            time shows.
    """

    sent_per_minute: float
    received_per_minute: float
    seconds: float
    last: QueueRates | None = None


#: Deaths of workers within so many seconds are a crash loop: two of one name, or three.
_LOOP_SECONDS, _OF_ONE_NAME, _OF_ALL = 600, 2, 3


def find_repeated_deaths(workers: Iterable[WorkerInfo], now_ms: int) -> list[tuple[int, str]]:
    """Return the deaths of a crash loop, as Unix ms and the worker's name; none without one."""
    deaths = [
        (at_ms, worker.name)
        for worker in workers
        for at_ms in (*worker.deaths, *(() if worker.alive else (worker.seen_ms,)))
        if at_ms >= now_ms - _LOOP_SECONDS * 1000
    ]
    most = max(Counter(name for _, name in deaths).values(), default=0)
    return deaths if len(deaths) >= _OF_ALL or most >= _OF_ONE_NAME else []


def find_stalled_workers(
    workers: Iterable[WorkerInfo],
) -> Iterator[tuple[WorkerInfo, StalledHandlers]]:
    """Yield the live workers that can't call handlers, with what they say of it."""
    return ((each, each.stalled) for each in workers if each.alive and each.stalled is not None)


#: A schedule is late after so many seconds.
LATE_SECONDS = 60
#: The begin of the failure of one whose queue does not exist.
MISSING_QUEUE = "Queue not found: "
#: From this share of ``maxmemory`` on, Redis is nearly full.
FULL_SHARE = 0.8


def find_stopped_targets(targets: Iterable[PushTarget]) -> list[PushTarget]:
    """Return the targets of webhooks to which nothing is pushed."""
    return [
        each
        for each in targets
        if each.refusal is not None or each.state != TargetState.CLOSED.value
    ]


def find_late_schedules(
    schedules: Iterable[StoredSchedule], now_ms: int
) -> Iterator[tuple[StoredSchedule, float]]:
    """Yield schedules that are late, with the seconds, and those whose attempts fail, with 0."""
    for each in schedules:
        if each.next_attempt_at is None or each.paused_at is not None:
            continue
        late = (now_ms - int(each.next_attempt_at.timestamp() * 1000)) / 1000
        if late >= LATE_SECONDS:
            yield each, late
        elif each.failures and each.failed_at is not None:
            yield each, 0


def is_nearly_full(memory: tuple[int, int]) -> bool:
    """Return whether the used bytes are near ``maxmemory``."""
    used, limit = memory
    return used >= limit * FULL_SHARE


@dataclass(frozen=True, slots=True)
class ObservedQueue:
    """
    The known facts of a queue at a moment.

    Attributes:
        name: its name.
        now_ms: the server's time, Unix ms.
        workers: the workers with a listener for it, those that are alive and those that died within
            a day.
        can_see_workers: whether all of them are known: the user may read them, and there were not
            too many to ask which of them has a message.
        rates: None if nothing has been recorded in the last ten minutes.
        hidden: the hidden messages by state; None if it was not read.
        limit: the limit that allows no receive now; None if there is none.
        repeated: the receives that ended without a delete, of its next hidden messages.
        purge: of an empty queue, its last purge, if that can be undone.
        resumed_ms: Unix ms of its last resume; None if it was never paused.
        received_lately: receives of the last five minutes; None if they were not recorded.
        held: how many messages of this queue dead workers still have in flight, by their names; of
            one that is missing, its last sign of life says it.
        targets: the targets of its webhooks.
        schedules: the schedules that send to it.
        memory: the used bytes and ``maxmemory`` of Redis; None if there is no limit, or if it was
            not read.
        streams: the streams of Spark that read from it, also those that wait for messages.
        largest_group: the group or limit key with the most messages; None without groups.
    """

    name: str
    now_ms: int
    attributes: QueueAttributes
    workers: tuple[WorkerInfo, ...] = ()
    can_see_workers: bool = True
    rates: QueueRates | None = None
    hidden: HiddenCounts | None = None
    limit: Limit | None = None
    repeated: RepeatedReceives = field(default_factory=RepeatedReceives)
    purge: Deletion | None = None
    resumed_ms: float | None = None
    received_lately: int | None = None
    held: Mapping[str, int] = field(default_factory=dict)
    targets: tuple[PushTarget, ...] = ()
    schedules: tuple[StoredSchedule, ...] = ()
    memory: tuple[int, int] | None = None
    streams: tuple[StreamInfo, ...] = ()
    largest_group: LargestGroup | None = None

    @property
    def stopped_targets(self) -> list[PushTarget]:
        """The targets of its webhooks to which nothing is pushed."""
        return find_stopped_targets(self.targets)

    @property
    def late_schedules(self) -> list[tuple[StoredSchedule, float]]:
        """The schedules that send to it and are late, with the seconds, or fail, with 0."""
        return [*find_late_schedules(self.schedules, self.now_ms)]

    @property
    def is_received(self) -> bool:
        """Whether a consumer is known to receive from it."""
        if self.received_lately is not None:
            return self.received_lately > 0
        return self.rates is not None and self.rates.received_per_minute > 0

    @property
    def was_resumed(self) -> bool:
        """Whether it was paused within the time of the rates."""
        return self.resumed_ms is not None and (
            0 <= self.now_ms - self.resumed_ms < RATE_MINUTES * 60_000
        )

    @property
    def present_rates(self) -> QueueRates | None:
        """The rates of the shortest time that is known; none that reach back to before a resume."""
        found = () if self.rates is None else (self.rates.last, self.rates)
        return next((each for each in found if each and self._is_since_resume(each)), None)

    def _is_since_resume(self, rates: QueueRates) -> bool:
        if not self.was_resumed or self.resumed_ms is None:
            return True
        return self.now_ms - self.resumed_ms >= rates.seconds * 1000

    @property
    def settles_ms(self) -> float | None:
        """
        Until when its repeated receives may be of the time before a change, Unix ms; else None.

        Workers extend the visibility timeout, so a change of it is not what ends their receives.
        """
        first_ms, attributes = self.repeated.last_first_received_ms, self.attributes
        if self.workers:
            return None
        return settling_end_ms(first_ms, attributes.modified, attributes.vt, self.now_ms)

    @property
    def is_received_again(self) -> bool:
        """Whether a message is, or, of consumers that are not workers, whether many are."""
        return self.repeated.id is not None or (self.repeated.are_many and not self.workers)

    @property
    def handlers_fail(self) -> bool:
        """Whether half of the messages, or of what was received lately, wait for a retry."""
        if self.hidden is None or self.hidden.retrying < _MIN_RETRYING:
            return False
        most = self.attributes.messages
        if self.rates is not None and self.rates.received_per_minute:
            most = min(most, round(self.rates.received_per_minute * self.rates.seconds / 60))
        return 2 * self.hidden.retrying >= most

    @property
    def live_workers(self) -> list[WorkerInfo]:
        """The workers that are alive."""
        return [each for each in self.workers if each.alive]

    @property
    def stalled_workers(self) -> list[tuple[WorkerInfo, StalledHandlers]]:
        """The live workers that can't call handlers, of which the queue's may be."""
        return [*find_stalled_workers(self.workers)]

    @property
    def dead_workers(self) -> list[WorkerInfo]:
        """The workers that died with messages of this queue in flight."""
        return [each for each in self.workers if not each.alive and self.in_flight_of(each)]

    @property
    def repeated_deaths(self) -> list[tuple[int, str]]:
        """The deaths of its workers if they are a crash loop, else none."""
        return find_repeated_deaths(self.workers, self.now_ms)

    def in_flight_of(self, worker: WorkerInfo) -> int:
        """Return how many of its messages a worker has in flight, as far as it is known."""
        return self.held.get(worker.name, worker.queues.get(self.name, 0))


@dataclass(frozen=True, slots=True)
class DeadLetterPlace:
    """Where a message is a dead letter: the queue, since when (Unix ms), and why."""

    queue: str
    died_ms: float
    reason: DeadLetterReason | None


@dataclass(frozen=True, slots=True)
class MessageBefore:
    """
    The message for which another one of its group is held back: the first that is admitted.

    Attributes:
        id: None if it is gone, and no sweep has admitted the next one yet.
        visible_at_ms: Unix ms from which it is visible.
        receive_count: how often it was received.
    """

    group: GroupName
    id: str | None = None
    visible_at_ms: float | None = None
    receive_count: int = 0


@dataclass(frozen=True, slots=True)
class ObservedMessage:
    """
    The known facts of a message at a moment.

    Attributes:
        queue: what is known of its queue.
        id: its id.
        visible_at_ms: Unix ms from which it is visible; None if its id is not in the queue.
        size: the bytes of its body; None if it has no body.
        receive_count: how often it was received.
        first_received_ms: Unix ms; None before the first receive.
        ids_before: how many ids are in front of it.
        unbegun: how many of its receives began no handler call.
        last_error: the error of the last attempt, while it waits for a retry.
        reason: the reason why a worker moved it to this queue.
        max_retries: its own number of retries; None if that of the policy counts.
        expires_ms: Unix ms from which it is expired, by its own limit or its queue's; None if it
            never is.
        quarantine_runs: how often it was run with no other call beside it, without an outcome.
        failed_receive: the receive count at which its handler failed the last time, else 0.
        holder: the worker that has it in flight; None if none of this library has.
        stream: the name and the number of the batch of the stream of Spark that has it in flight;
            None if none has.
        job: its record; None if it is not tracked.
        dead: where it is a dead letter, if it is in the dead-letter queue of this queue's policy.
        has_dead_letter_queue: whether that exists.
        deletion: the deletion that has removed it, if that can be undone.
        before: the message of its group for which it is held back; None if it is not.
    """

    queue: ObservedQueue
    id: str
    visible_at_ms: float | None = None
    size: int | None = None
    receive_count: int = 0
    first_received_ms: int | None = None
    ids_before: int = 0
    unbegun: int = 0
    last_error: str | None = None
    reason: DeadLetterReason | None = None
    max_retries: int | None = None
    expires_ms: float | None = None
    quarantine_runs: int = 0
    failed_receive: int = 0
    holder: WorkerInfo | None = None
    stream: tuple[str, int] | None = None
    job: JobStatus[object] | None = None
    dead: DeadLetterPlace | None = None
    has_dead_letter_queue: bool = False
    deletion: Deletion | None = None
    before: MessageBefore | None = None

    @property
    def stalled_holder(self) -> StalledHandlers | None:
        """The handlers that its worker can't call; None if it can call all."""
        name = None if self.holder is None or not self.is_in_flight else self.holder.name
        found = (why for worker, why in self.queue.stalled_workers if worker.name == name)
        return next(found, None)

    @property
    def is_there(self) -> bool:
        """Whether it is a message of the queue, with its id and its body."""
        return self.visible_at_ms is not None and self.size is not None

    @property
    def is_hidden(self) -> bool:
        """Whether it is not visible yet."""
        return self.visible_at_ms is not None and self.visible_at_ms > self.queue.now_ms

    @property
    def is_in_flight(self) -> bool:
        """Whether it was received, and is hidden but not for a retry."""
        return self.is_hidden and self.receive_count > 0 and self.last_error is None

    @property
    def is_redriven(self) -> bool:
        """Whether a redrive has sent it again, from a dead-letter queue."""
        return is_redriven(self.id)

    @property
    def attempts(self) -> int:
        """How many of its receives began an attempt, as dead-letter policies count them."""
        return max(self.receive_count - self.unbegun, 0)

    @property
    def lost_receives(self) -> int:
        """How many of its last receives ended without a delete or a recorded retry."""
        if self.last_error is not None:
            return 0
        ended = self.receive_count - self.is_in_flight
        return max(ended - max(self.failed_receive, self.unbegun), 0)

    @property
    def settles_ms(self) -> float | None:
        """Until when its receives may be of the time before a change, as of ``ObservedQueue``."""
        attributes = self.queue.attributes
        if self.queue.workers:
            return None
        return settling_end_ms(
            self.first_received_ms, attributes.modified, attributes.vt, self.queue.now_ms
        )

    @property
    def max_attempts(self) -> int | None:
        """After how many attempts it is a dead letter; None if it never is."""
        limit = self.queue.attributes.max_receives
        if limit is None or not self.has_dead_letter_queue:
            return None
        return limit if self.max_retries is None else self.max_retries + 1

    @property
    def has_own_limit(self) -> bool:
        """Whether ``max_attempts`` is the message's own, and not that of its queue's policy."""
        return self.max_attempts is not None and self.max_retries is not None

    @property
    def is_expired(self) -> bool:
        """Whether the next receive removes it, or moves it, because it is too old."""
        goes_nowhere = (
            self.queue.attributes.expired == "dead-letter" and not self.has_dead_letter_queue
        )
        return (
            self.expires_ms is not None
            and self.expires_ms <= self.queue.now_ms
            and not goes_nowhere
        )

    @property
    def sent_ms(self) -> float | None:
        """Unix ms of the send, with microseconds as decimals; None if the id contains no time."""
        us = parse_sent_us(self.id, self.queue.now_ms)
        return None if us is None else us / 1000

    def shown_to(
        self,
        redaction: Redaction,
        may_see: Callable[[str], bool],
        may_undo: Callable[[Deletion], bool] = lambda _: True,
    ) -> ObservedMessage:
        """
        Return the facts as a reader may see them.

        Args:
            redaction: what of bodies, and of texts that may quote them, it does not see.
            may_see: whether it may read the messages of another queue.
            may_undo: whether it may undo a deletion; else it does not see whose it is.
        """
        job, dead, deletion = self.job, self.dead, self.deletion
        if deletion is not None and not may_undo(deletion):
            deletion = replace(deletion, by="")
        if job is not None:
            job = replace(job, error=redaction.failure(job.error))
        if dead is not None:
            dead = replace(dead, reason=redaction.reason(dead.reason))
        return replace(
            self,
            last_error=redaction.failure(self.last_error),
            reason=redaction.reason(self.reason),
            job=job,
            dead=dead if dead is not None and may_see(dead.queue) else None,
            deletion=deletion,
        )
