"""
What to ask of which queue, and in what order: pure.

Queues of a higher priority come first, and of one priority the one that was asked longest ago.
Where those of a higher priority fill all slots, others would wait for ever: so one that has not
been asked for a time comes first, for one call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rsmq.operations.workers import Want
from rsmq.worker.lane import Lane

#: Seconds after which a queue that has not been asked comes first.
STARVED = 10.0


def in_order(lanes: Iterable[Lane], now: float) -> list[tuple[Lane, bool]]:
    """The lanes in the order in which they are asked, and whether each is starved."""
    marked = [(lane, now - lane.asked_at >= STARVED) for lane in lanes]
    if all(starved for _, starved in marked):  # then none is for another's sake
        marked = [(lane, False) for lane, _ in marked]
    return sorted(
        marked, key=lambda each: (not each[1], -each[0].listener.priority, each[0].asked_at)
    )


def wants(lanes: Sequence[Lane], slots: int, now: float) -> list[tuple[Lane, Want]]:
    """
    What is asked of the queues.

    Args:
        lanes: those that are open.
        slots: calls that could begin now, beside those that are ready.
        now: monotonic seconds.

    Returns:
        Of each lane that is asked what it is asked for, in order; empty where there is nothing to
        be asked.
    """
    asked = []
    for lane, starved in in_order(lanes, now) if len(lanes) > 1 else [(lanes[0], False)]:
        size, ready = lane.size, len(lane.ready)
        free = min(lane.limit - lane.running - ready, slots)
        ahead = lane.ahead
        most = max(free, 0) * size + ahead
        if free <= 0:
            waiting = ready * size
            most = ahead - waiting
            if 2 * waiting > ahead:  # half of what may wait does: later, more at once
                most = 0
        if starved and free > 0:
            most, ahead = size, 0
        if most > 0:
            vt_ms = round(lane.vt * 1000)
            asked.append((lane, Want(lane.keys, vt_ms, size, ahead, most)))
    return asked
