"""
Which ticks of a schedule are fired if its time has come, and which is next. Without I/O or clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from typing import Literal

from rsmq.schedules.ticks import latest_ticks, next_tick

#: The treatment of ticks that no process has fired in time.
Missed = Literal["skip", "once", "all"]

#: A tick is missed after this time, or if the next one is due.
MISSED_AFTER_MS = 60_000
#: The number of ticks that are fired at once, with ``all``: the latest.
MAX_MISSED = 1000


@dataclass(frozen=True, slots=True)
class DueTicks:
    """
    The ticks that are fired together.

    Attributes:
        ticks: Unix ms, in order; none if all are skipped.
        last_ms: the last tick that is fired or skipped.
        next_ms: the tick that is stored then; None if there is none.
    """

    ticks: list[int]
    last_ms: int
    next_ms: int | None


def plan_ticks(
    rule: str | int, zone: tzinfo, tick_ms: int, now_ms: int, *, missed: Missed, jitter_ms: int
) -> DueTicks:
    """
    Decide which ticks to fire.

    Args:
        rule: an expression of cron, or an interval in ms.
        zone: the time zone of an expression.
        tick_ms: the stored tick, which has not been fired.
        now_ms: the server's time.
        missed: what happens to ticks that are missed: ``skip`` drops them, ``once`` fires the
            latest one for all, ``all`` fires each, at most the latest MAX_MISSED.
        jitter_ms: the longest delay of a tick. Ticks are not missed while they wait for it.
    """
    horizon = max(tick_ms, now_ms - jitter_ms)
    following = next_tick(rule, zone, tick_ms)
    if following is None or following > horizon:
        ticks = [tick_ms]
    else:
        number = MAX_MISSED if missed == "all" else 1
        later = latest_ticks(rule, zone, following, horizon, number)
        ticks = [tick_ms, *later][-number:]
        following = next_tick(rule, zone, ticks[-1])
    is_skipped = missed == "skip" and horizon - ticks[-1] > MISSED_AFTER_MS
    return DueTicks([] if is_skipped else ticks, ticks[-1], following)
