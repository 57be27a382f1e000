"""
How many messages to ask of which queue, and in which order. Pure.

Queues of a higher priority come first, and of one priority the one that was asked longest ago.
Where those of a higher priority fill all slots, others would wait forever: so one that has not
been asked for a time comes first, for one call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rsmq.operations.worker import Want
from rsmq.worker.runtime.message_state import Lane

#: Seconds after which a queue that has not been asked comes first.
STARVED = 10.0


@dataclass(frozen=True, slots=True)
class Asked:
    """
    A queue that is asked.

    Attributes:
        lane: whose.
        want: for what.
        starved: whether it comes first because it has waited for so long.
    """

    lane: Lane
    want: Want
    starved: bool


def in_order(lanes: Sequence[Lane], now: float) -> list[tuple[Lane, bool]]:
    """The lanes in the order in which they are asked, and whether each is starved."""
    if len(lanes) == 1:
        return [(lanes[0], False)]
    marked = [(lane, now - lane.asked_at >= STARVED and not lane.waits) for lane in lanes]
    if all(starved or lane.waits for lane, starved in marked):  # then none is for another's sake
        marked = [(lane, False) for lane, _ in marked]
    return sorted(
        marked, key=lambda each: (not each[1], -each[0].listener.priority, each[0].asked_at)
    )


def wants(
    lanes: Sequence[Lane], free: int, ready: Mapping[int, int], now: float
) -> tuple[list[Asked], int]:
    """
    What is asked of the queues.

    Args:
        lanes: those in whose queues there may be something.
        free: slots in which no call is under way.
        ready: calls that are to be made, by priority: those of a lane's priority or a higher one
            begin before what is asked for here.
        now: monotonic seconds.

    Returns:
        The queues that are asked, in order, none where there is nothing to be asked; and in how
        many slots what comes of it can begin.
    """
    asked: list[Asked] = []
    slots = 0
    highest = max((lane.listener.priority for lane in lanes if not lane.waits), default=0)
    for lane, starved in in_order(lanes, now):
        size, waiting, priority = lane.size, len(lane.ready), lane.listener.priority
        open_slots = free - sum(number for of, number in ready.items() if of >= priority)
        begin = max(min(lane.limit - len(lane.calls) - waiting, open_slots), 0)
        # What is taken ahead could begin before what comes later of a higher priority.
        ahead = lane.ahead(now) if priority >= highest else 0
        most = begin * size + ahead
        if begin == 0:
            most = ahead - waiting * size
            if 2 * waiting * size > ahead:  # half of what may wait does: later, more at once
                most = 0
        if starved and len(lane.calls) + waiting < lane.limit:
            most = ahead = size
        if most > 0:
            if not asked or open_slots > slots:
                slots = max(open_slots, 0)
            vt_ms = round(lane.vt * 1000)
            asked.append(Asked(lane, Want(lane.keys, vt_ms, size, ahead, most), starved))
    return asked, slots
