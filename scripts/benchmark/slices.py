"""What one slice of time took, and how much fills one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

WARM_UP_SLICES = 3


@dataclass(frozen=True)
class Slice:
    """What one slice took, seconds."""

    wall: float
    client_cpu: float | None
    server_cpu: float


def count_for(seconds_of: Callable[[int], float], step: int, slice_seconds: float) -> int:
    """
    About how many messages fill a slice of time, once whoever does them is warm.

    Args:
        seconds_of: does that many messages; the seconds it took.
        step: messages that are done together; it is a multiple of them.
        slice_seconds: the slice.
    """
    steps, spent = 1, 0.0
    while spent < WARM_UP_SLICES * slice_seconds:
        took = seconds_of(steps * step)
        spent += took
        steps = max(round(steps * slice_seconds / max(took, slice_seconds / 10)), 1)
    return steps * step


def microseconds(seconds: Sequence[float | None], count: int) -> float | None:
    """The median for one message, of what slices of ``count`` took; None if that is unknown."""
    return None if None in seconds else median(seconds) / count * 1e6
