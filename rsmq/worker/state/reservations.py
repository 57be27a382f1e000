"""
How many calls each lane may have if lanes reserve slots. Pure.

A lane has its reserved slots for itself, also while it has no messages. All other slots are shared:
a lane uses them for the calls beyond its reservation, up to its maximum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class SlotUse(NamedTuple):
    """
    The slots of a lane.

    Attributes:
        running: the number of its running calls.
        reserved: how many slots are reserved for it, at most ``maximum``.
        maximum: how many calls it may have.
    """

    running: int
    reserved: int
    maximum: int


def compute_limits(slots: int, uses: Sequence[SlotUse]) -> list[int]:
    """
    Return for each lane how many calls it may have now, the running ones included.

    Args:
        slots: the number of all slots, at least those that are reserved.
        uses: the slots of each lane.
    """
    taken = sum(max(each.running, each.reserved) for each in uses)
    free_shared = max(slots - taken, 0)
    return [min(each.maximum, max(each.running, each.reserved) + free_shared) for each in uses]
