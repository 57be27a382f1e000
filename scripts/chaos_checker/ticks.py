"""Rules on the messages of schedules: one for each tick, and not before it."""

from __future__ import annotations

from collections.abc import Iterator

from .history import History, Schedule
from .losses import Windows
from .messages import MessageCalls, Messages, received_before, tick_of
from .violation import Violation, violation

#: The clocks of the run and of the server are the same one, read one after the other.
_ROUNDING_SECONDS = 0.1
_DIGITS = 3

_Ticks = dict[tuple[str, float], list[MessageCalls]]


def check_ticks(messages: Messages, windows: Windows, history: History) -> Iterator[Violation]:
    """Yield the violations."""
    ticks = _ticks_of(messages)
    epoch = history.settings.get("epoch")
    for (name, tick), found in sorted(ticks.items()):
        calls = [call for each in found for call in each.deliveries]
        shown_by = [seen for each in found for seen in each.sightings]
        if len(found) > 1:
            yield violation("tick twice", f"{name} {tick}", shown_by, windows.excuse(calls))
        if epoch is not None:
            at = tick - float(epoch) - _ROUNDING_SECONDS
            early = [each for each in calls if received_before(each) < at]
            if early:
                yield violation("tick early", f"{name} {tick}", early)
    for schedule in history.schedules:
        for tick in _all_ticks(schedule):
            if (schedule.name, tick) not in ticks:
                yield violation("tick lost", f"{schedule.name} {tick}", [schedule])


def _ticks_of(messages: Messages) -> _Ticks:
    ticks: _Ticks = {}
    for found in messages.by_id.values():
        for body in {each.body for each in found.sightings if each.body is not None}:
            tick = tick_of(body) if messages.schedules else None
            if tick is not None and tick[0] in messages.schedules:
                ticks.setdefault((tick[0], round(tick[1], _DIGITS)), []).append(found)
    return ticks


def _all_ticks(schedule: Schedule) -> Iterator[float]:
    number, last = 0, schedule.last + schedule.every / 2
    while (tick := schedule.first + number * schedule.every) < last:
        yield round(tick, _DIGITS)
        number += 1
