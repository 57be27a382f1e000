"""
How fast a queue is filled and drained, from its history of the last hour.
"""

from __future__ import annotations

from dataclasses import replace

from rsmq.explain.observed import IDLE_MINUTES, RATE_MINUTES, ObservedQueue, QueueRates
from rsmq.figures.facts import QueueActivity
from rsmq.history.records import History

#: Minutes of the history that are of now.
_PRESENT_MINUTES, _MINUTE_MS = 2, 60_000


def with_rates(facts: ObservedQueue, activity: QueueActivity) -> ObservedQueue:
    """Return what is known of a queue, with its rates and what was received lately."""
    return replace(
        facts, rates=_rates_of(facts, activity.hour), received_lately=_received_lately(activity)
    )


def _received_lately(activity: QueueActivity) -> int | None:
    if activity.received_since is None or activity.received_per_second is None:
        return None
    hour = activity.hour
    first_ms = hour.end_ms - IDLE_MINUTES * _MINUTE_MS
    of_gaps = (each.received for each in hour.gaps if each.end_ms > first_ms)
    of_minutes = (each or 0 for each in hour.received[-IDLE_MINUTES:])
    return activity.received_since + sum(of_gaps) + sum(of_minutes)


def _rates_of(facts: ObservedQueue, hour: History) -> QueueRates | None:
    found = _recent(hour, RATE_MINUTES)
    since = RATE_MINUTES
    if facts.was_resumed and facts.resumed_ms is not None:
        since = facts.now_ms // _MINUTE_MS - int(facts.resumed_ms) // _MINUTE_MS - 1
    minutes = min(_PRESENT_MINUTES, since)
    last = _recent(hour, minutes)
    if last is not None and last.seconds < minutes * 60:
        last = None
    if last is None and facts.was_resumed:
        last = _recent(hour, since)
    return replace(found, last=last) if found is not None else None


def _recent(hour: History, minutes: int) -> QueueRates | None:
    """Return the rates of the last minutes, as far as they were recorded."""
    if minutes <= 0:
        return None
    columns = zip(hour.sent[-minutes:], hour.received[-minutes:], strict=True)
    recorded = [(sent, received or 0, 1) for sent, received in columns if sent is not None]
    first_ms = hour.end_ms - minutes * _MINUTE_MS
    recorded += [
        (each.sent, each.received, (each.end_ms - each.start_ms) // _MINUTE_MS)
        for each in hour.gaps
        if each.start_ms >= first_ms and each.end_ms <= hour.end_ms
    ]
    length = sum(each for _, _, each in recorded)
    if not length:
        return None
    sent, received = (sum(each[at] for each in recorded) for at in (0, 1))
    return QueueRates(sent / length, received / length, length * 60)
