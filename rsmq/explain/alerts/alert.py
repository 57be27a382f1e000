"""
An alert: something that is wrong, and the words that alerts share.

A fault of a queue, of its webhooks and schedules, and of the memory is a cause of ``why``, beyond a
threshold: then ``why`` names the cause too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from rsmq.explain.causes import Cause


class AlertKind(Enum):
    """The kinds of faults, the worst first."""

    CRASH_LOOP = "crash-loop"
    DEAD_WORKER = "dead-worker"
    BLOCKED_WORKER = "blocked-worker"
    MEMORY = "memory"
    NOT_RECEIVED = "not-received"
    WEBHOOK_STOPPED = "webhook-stopped"
    RECEIVED_AGAIN = "received-again"
    NEW_DEAD_LETTERS = "new-dead-letters"
    LATE_SCHEDULE = "late-schedule"
    FLOW_STUCK = "flow-stuck"
    FAILING = "failing"
    FAILING_WORKER = "failing-worker"
    PAUSED = "paused"
    FLOODED = "flooded"
    GROWING = "growing"
    NOT_RECORDED = "not-recorded"
    ALERTS_NOT_SENT = "alerts-not-sent"
    NOT_RESTARTED = "not-restarted"
    PURGED = "purged"


#: The causes from which alerts follow. Others are about workers, the history, and past events.
CAUSES: Mapping[AlertKind, frozenset[Cause]] = {
    AlertKind.CRASH_LOOP: frozenset({Cause.CRASH_LOOP}),
    AlertKind.DEAD_WORKER: frozenset({Cause.DEAD_WORKER}),
    AlertKind.BLOCKED_WORKER: frozenset({Cause.BLOCKED_WORKER}),
    AlertKind.MEMORY: frozenset({Cause.MEMORY}),
    AlertKind.NOT_RECEIVED: frozenset({Cause.NO_WORKER, Cause.STALLED}),
    AlertKind.WEBHOOK_STOPPED: frozenset({Cause.WEBHOOK_STOPPED}),
    AlertKind.RECEIVED_AGAIN: frozenset({Cause.RECEIVED_AGAIN}),
    AlertKind.LATE_SCHEDULE: frozenset({Cause.LATE_SCHEDULE}),
    AlertKind.PAUSED: frozenset({Cause.PAUSED}),
    AlertKind.FLOODED: frozenset({Cause.FLOODED}),
    AlertKind.GROWING: frozenset({Cause.FILLED_FASTER}),
}

#: The kinds whose subject is a queue. Others are about workers, schedules, targets or the server.
OF_QUEUES = frozenset({
    AlertKind.NOT_RECEIVED, AlertKind.WEBHOOK_STOPPED, AlertKind.RECEIVED_AGAIN,
    AlertKind.NEW_DEAD_LETTERS, AlertKind.PAUSED, AlertKind.GROWING, AlertKind.PURGED,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Alert:
    """
    Something that is wrong.

    Attributes:
        level: ``bad`` if messages are not processed, ``warn`` if that may come, ``note`` if it
            was intended, but an operator may want to undo it.
        subject: the name of the queue, the worker or the schedule, the id of the flow, or a task as
            ``queue/task``; empty for the server.
        text: one sentence.
        evidence: the figures behind it.
        since_ms: Unix ms; None if it is not known.
        queue: the queue that it concerns; None if it is none, or several.
        message: the id of the message that it concerns, as callers know it; else None.
        sources: of dead letters, the queues whose policies move messages there.
        worker: of failing tasks, the worker that fails far more than the others; else None.
    """

    kind: AlertKind
    level: Literal["bad", "warn", "note"]
    subject: str
    text: str
    evidence: str
    since_ms: int | None
    queue: str | None
    message: str | None = None
    sources: tuple[str, ...] = ()
    worker: str | None = None


_MAX_LISTED = 3
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))


def list_names(names: Iterable[str]) -> str:
    """Return the first names, and how many more there are."""
    ordered = sorted(names)
    rest = len(ordered) - _MAX_LISTED
    more = f" and {rest:,} more" if rest > 0 else ""
    return ", ".join(ordered[:_MAX_LISTED]) + more


def format_span(seconds: float) -> str:
    """Return a time in the largest unit of which it has two."""
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
