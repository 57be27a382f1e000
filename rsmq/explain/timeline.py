"""
The timeline of a message: what Redis knows of its past and its future.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from rsmq.errors.printable import format_count
from rsmq.explain.observed import ObservedMessage
from rsmq.explain.sentences import format_moment
from rsmq.model import DeadLetterReason
from rsmq.wire.ids import parse_tick_ms

#: ``created`` of a queue is stored in whole seconds.
_CREATED_ROUNDING_MS = 1000
#: A message that is visible so much later than its receive plus the timeout was extended.
_EXTENDED_MS = 1000


class EventKind(StrEnum):
    """The past and future events of a message; each is equal to its text."""

    SENT = "sent"
    REDRIVEN = "redriven"
    MOVED = "moved"
    FIRST_RECEIVED = "first-received"
    RECEIVED = "received"
    BEGUN = "begun"
    EXTENDED = "extended"
    RETRIED = "retried"
    QUARANTINED = "quarantined"
    DEAD_LETTERED = "dead-lettered"
    DELETED = "deleted"
    ENDED = "ended"
    VISIBLE = "visible"
    EXPIRES = "expires"


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """
    An event of a message.

    Attributes:
        at_ms: Unix ms, by the server's clock; None if it is not known.
        text: a sentence.
        is_estimate: whether the event or its time is concluded from others and not stored.
        detail: the traceback of a dead letter; None of other events.
    """

    kind: EventKind
    at_ms: float | None
    text: str
    is_estimate: bool = False
    detail: str | None = None


def message_timeline(facts: ObservedMessage) -> list[TimelineEvent]:
    """Return the events of a message in their order; those in the future are the last."""
    placed: list[tuple[float, int, TimelineEvent]] = []
    last = float("-inf")
    for number, event in enumerate(_events(facts)):
        # One without a time stays behind the one before it.
        # A send has microseconds in its id; others are whole ms, and were after it in the same one.
        last = last if event.at_ms is None else int(event.at_ms)
        placed.append((last, number, event))
    return [event for _, _, event in sorted(placed, key=lambda each: each[:2])]


def _events(facts: ObservedMessage) -> Iterator[TimelineEvent]:
    yield from _sends(facts)
    yield from _receives(facts)
    if facts.reason is not None:
        yield _death(facts.queue.name, facts.reason.died_ms, facts.reason)
    if facts.dead is not None:
        yield _death(facts.dead.queue, facts.dead.died_ms, facts.dead.reason)
    if facts.deletion is not None:
        until = format_moment(facts.deletion.until_ms, facts.queue.now_ms)
        text = f"Deleted; this can be undone until {until}."
        yield TimelineEvent(EventKind.DELETED, facts.deletion.deleted_ms, text)
    yield from _end(facts)
    if facts.is_there:
        yield from _future(facts)


def _sends(facts: ObservedMessage) -> Iterator[TimelineEvent]:
    sent, tick = facts.sent_ms, parse_tick_ms(facts.id)
    if facts.is_redriven:
        yield TimelineEvent(
            EventKind.REDRIVEN, sent, "Sent again from a dead-letter queue, with a new id."
        )
    elif tick is not None:
        at = format_moment(tick, facts.queue.now_ms)
        yield TimelineEvent(EventKind.SENT, sent, f"Sent by a schedule, for its tick at {at}.")
    elif sent is not None:
        traces = (facts.job, facts.dead, facts.deletion)
        is_known = facts.is_there or any(each is not None for each in traces)
        text = "Sent." if is_known else "Sent, as its id says."
        yield TimelineEvent(EventKind.SENT, sent, text, is_estimate=not is_known)
    created = facts.queue.attributes.created
    is_older = (
        sent is not None
        and created is not None
        and sent < created.timestamp() * 1000 - _CREATED_ROUNDING_MS
    )
    if facts.is_there and is_older and facts.reason is None:
        yield TimelineEvent(
            EventKind.MOVED,
            None,
            "Moved to this queue or imported: it was sent before the queue was created.",
            is_estimate=True,
        )


def _receives(facts: ObservedMessage) -> Iterator[TimelineEvent]:
    count, job, vt_ms = facts.receive_count, facts.job, facts.queue.attributes.vt * 1000
    holder = "" if facts.holder is None else f"; worker {facts.holder.name} has it"
    if facts.first_received_ms is not None:
        text = f"First received{holder if count == 1 else ''}."
        yield TimelineEvent(EventKind.FIRST_RECEIVED, facts.first_received_ms, text)
    begun = None if job is None else _to_ms(job.begun_at)
    if count > 1:
        received = _last_received_ms(facts)
        unbegun = f", {facts.unbegun:,} of them without a call" if facts.unbegun else ""
        text = f"Received {count:,} times so far{unbegun}{holder}."
        yield TimelineEvent(EventKind.RECEIVED, received, text, is_estimate=received is not None)
    if job is not None and begun is not None:
        yield TimelineEvent(
            EventKind.BEGUN, begun, f"Attempt {job.attempt} began in worker {job.worker}."
        )
        extended = (facts.visible_at_ms or 0) - vt_ms
        if facts.is_in_flight and begun + _EXTENDED_MS < extended <= facts.queue.now_ms:
            text = "Its worker has extended it."
            yield TimelineEvent(EventKind.EXTENDED, extended, text, is_estimate=True)
    if facts.quarantine_runs:
        runs = format_count(facts.quarantine_runs, "time")
        text = f"Run alone {runs}, as a suspected poison message, without a known outcome."
        yield TimelineEvent(EventKind.QUARANTINED, None, text)
    if facts.last_error is not None:
        text = f"Attempt {facts.attempts:,} failed: {facts.last_error}"
        yield TimelineEvent(EventKind.RETRIED, None, text)


def _last_received_ms(facts: ObservedMessage) -> float | None:
    """Return when it was received, if it was hidden for the timeout of its queue then."""
    if not facts.is_in_flight or facts.visible_at_ms is None:
        return None
    received = facts.visible_at_ms - facts.queue.attributes.vt * 1000
    is_possible = (facts.first_received_ms or 0) <= received <= facts.queue.now_ms
    return received if is_possible else None


def _death(queue: str, died_ms: float, reason: DeadLetterReason | None) -> TimelineEvent:
    if reason is None:
        text = f"Moved to dead-letter queue {queue}: it was received too often."
        return TimelineEvent(EventKind.DEAD_LETTERED, died_ms, text)
    error = f" ({reason.exception})" if reason.exception else ""
    text = (
        f"Moved from queue {reason.queue} to dead-letter queue {queue} by worker {reason.worker}, "
        f"after {format_count(reason.attempts, 'receive')}: {reason.text.rstrip('.')}{error}."
    )
    return TimelineEvent(EventKind.DEAD_LETTERED, died_ms, text, detail=reason.traceback)


def _end(facts: ObservedMessage) -> Iterator[TimelineEvent]:
    job = facts.job
    if job is not None and job.is_ended and (job.ended_at is not None or job.state != "expired"):
        error = f": {job.error}" if job.error and job.state == "failed" else ""
        text = f"Its job ended: {job.state}{error}."
        yield TimelineEvent(EventKind.ENDED, _to_ms(job.ended_at), text)


def _future(facts: ObservedMessage) -> Iterator[TimelineEvent]:
    visible = facts.visible_at_ms
    if visible is not None and facts.is_hidden and facts.before is None:
        again = "again " if facts.receive_count else ""
        yield TimelineEvent(
            EventKind.VISIBLE, visible, f"Becomes visible {again}unless it changes."
        )
    if facts.expires_ms is not None:
        text = "Expired." if facts.is_expired else "Expires."
        yield TimelineEvent(EventKind.EXPIRES, facts.expires_ms, text)


def _to_ms(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp() * 1000
