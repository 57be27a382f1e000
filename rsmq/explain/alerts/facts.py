"""
The facts from which alerts follow, as they were read at one time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rsmq.explain.alerts.record import AlertRecord
from rsmq.explain.observed import ObservedMessage, ObservedQueue
from rsmq.explain.rates import with_rates
from rsmq.figures.facts import LargestGroup, QueueActivity, QueueBacklog
from rsmq.history.recent_calls import TaskMinutes
from rsmq.model import QueueAttributes
from rsmq.schedules.definition import StoredSchedule
from rsmq.trash.deletion import Deletion
from rsmq.webhooks.shared_breaker import PushTarget
from rsmq.wire.workers import WorkerInfo


@dataclass(frozen=True, slots=True)
class RemovedMessage:
    """
    A message that a user has moved to another queue, or deleted.

    Attributes:
        queue: from which it was removed.
        id: as callers know it.
        by: who has done it; None if that is not known.
        at_ms: Unix ms.
        destination: the queue that has it now; None if it was deleted.
        lost: of how many of its receives it is not recorded how they ended; 0 if it was deleted.
    """

    queue: str
    id: str
    by: str | None
    at_ms: int
    destination: str | None
    lost: int


@dataclass(frozen=True, slots=True)
class HeldMessages:
    """
    Messages that a dead worker still has in flight.

    Attributes:
        by_queue: their numbers.
        last_visible_ms: Unix ms when all of them are visible again.
        ids: the queue and the id of each.
    """

    by_queue: Mapping[str, int]
    last_visible_ms: float
    ids: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True)
class WaitingFlow:
    """
    A running flow of tasks none of whose nodes runs.

    Attributes:
        id: its id.
        task: the task of its first node that was sent and has not ended.
        number: the number of that node.
        message: what is known of its message.
        sent_ms: Unix ms of the send of the flow.
    """

    id: str
    task: str
    number: int
    message: ObservedMessage
    sent_ms: int


@dataclass(frozen=True, slots=True)
class AlertFacts:
    """
    The facts.

    Attributes:
        now_ms: the server's time, Unix ms.
        states: what waits in each queue.
        activities: what happens in those that may have an alert.
        workers: those that are alive, and those that died within a day.
        held: by name of a dead worker, its messages in flight.
        targets: the targets of webhooks.
        schedules: the schedules.
        deletions: those that can be undone.
        memory: the used bytes and ``maxmemory`` of the fullest server that has a limit.
        bodies: if the memory is nearly full, the bytes of the bodies of each queue, by a sample.
        recorded_minute: the last minute of which histories were recorded, Unix minutes; None if
            none was, and 0 if the user may not read it.
        age_seconds: how many seconds ago the states were read.
        removed: if workers die again and again, the messages that were moved or deleted since the
            first death.
        record: the targets of alerts, their silences, and what was announced.
        sees_all: whether alerts about no single queue may be known.
        flows: the flows that may be stuck.
        tasks: the figures of tasks in the last hour.
        groups: of the queues of ``activities``, the group with the most messages.
        limits: of the queues that a group floods, their attributes.
    """

    now_ms: int
    states: Mapping[str, QueueBacklog] = field(default_factory=dict)
    activities: Mapping[str, QueueActivity] = field(default_factory=dict)
    workers: Sequence[WorkerInfo] = ()
    held: Mapping[str, HeldMessages] = field(default_factory=dict)
    targets: Sequence[PushTarget] = ()
    schedules: Sequence[StoredSchedule] = ()
    deletions: Sequence[Deletion] = ()
    memory: tuple[int, int] | None = None
    recorded_minute: int | None = None
    age_seconds: float = 0
    removed: Sequence[RemovedMessage] = ()
    record: AlertRecord = field(default_factory=AlertRecord)
    sees_all: bool = True
    bodies: Mapping[str, int] = field(default_factory=dict)
    flows: Sequence[WaitingFlow] = ()
    tasks: Sequence[TaskMinutes] = ()
    groups: Mapping[str, LargestGroup] = field(default_factory=dict)
    limits: Mapping[str, QueueAttributes] = field(default_factory=dict)

    def observe(self, state: QueueBacklog) -> ObservedQueue:
        """Return what is known of a queue, as ``why`` reads it of one."""
        observed = ObservedQueue(
            state.name,
            self.now_ms,
            self._attributes_of(state),
            tuple(each for each in self.workers if state.name in each.queues),
            repeated=state.repeated,
            largest_group=self.groups.get(state.name),
            resumed_ms=state.resumed_ms,
            held={name: each.by_queue.get(state.name, 0) for name, each in self.held.items()},
        )
        activity = self.activities.get(state.name)
        return observed if activity is None else with_rates(observed, activity)

    def _attributes_of(self, state: QueueBacklog) -> QueueAttributes:
        known, limits = _attributes_of(state), self.limits.get(state.name)
        if limits is None:
            return known
        return replace(known, max_running=limits.max_running, rate=limits.rate)


def _attributes_of(state: QueueBacklog) -> QueueAttributes:
    """Return the attributes that causes follow from; what was not read has no effect on them."""
    return QueueAttributes(
        vt=state.vt,
        delay=0,
        maxsize=-1,
        total_received=int(state.received or 0),
        total_sent=int(state.sent or 0),
        created=None,
        modified=state.modified,
        messages=state.messages,
        hidden_messages=state.messages - state.visible,
        visible_messages=state.visible,
        next_due_ms=None,
        dead_letter_queue=state.dead_letter_queue,
        max_receives=None,
        paused=state.paused_ms is not None,
    )


def dead_letter_queues(states: Iterable[QueueBacklog]) -> dict[str, list[str]]:
    """
    Return the dead-letter queues, each with the queues whose policies name it.

    A queue to which workers have moved messages is one without a policy too.
    """
    found: dict[str, list[str]] = {}
    for state in states:
        if state.dead_letter_queue is not None and state.dead_letter_queue != state.name:
            found.setdefault(state.dead_letter_queue, []).append(state.name)
        if state.has_reasons:
            found.setdefault(state.name, [])
    return found
