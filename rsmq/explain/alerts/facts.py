"""
The facts from which alerts follow, as they were read at one time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rsmq.figures.facts import QueueActivity, QueueBacklog
from rsmq.push.shared_breaker import PushTarget
from rsmq.schedules.definition import StoredSchedule
from rsmq.trash.deletion import Deletion
from rsmq.wire.workers import WorkerInfo


@dataclass(frozen=True, slots=True)
class RemovedMessage:
    """
    A message that somebody has moved to another queue, or deleted.

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
class AlertFacts:
    """
    The facts.

    Attributes:
        now_ms: the server's time, Unix ms.
        states: what waits in each queue.
        activities: what happens in those that may have an alert.
        workers: those that are alive, and those that died within a day.
        held: by name of a dead worker, what it still has in flight.
        targets: the targets of webhooks.
        schedules: the schedules.
        deletions: those that can be undone.
        memory: the used bytes and ``maxmemory`` of the fullest server that has a limit.
        recorded_minute: the last minute of which histories were recorded, Unix minutes; None if
            none was, and 0 if the user may not read it.
        age_seconds: how many seconds ago the states were read.
        removed: if workers die again and again, the messages that were moved or deleted since the
            first death.
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
