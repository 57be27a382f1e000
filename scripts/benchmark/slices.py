"""The times of a slice, and the number of messages that fill one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

WARM_UP_SLICES = 3


@dataclass(frozen=True)
class Slice:
    """The times of one slice, in seconds."""

    wall: float
    client_cpu: float | None
    server_cpu: float


def messages_per_slice(seconds_of: Callable[[int], float], step: int, slice_seconds: float) -> int:
    """
    Return how many messages take about one slice of time after a warm-up.

    Args:
        seconds_of: runs this many messages, and returns the seconds that it took.
        step: messages that are processed together; the result is a multiple of it.
        slice_seconds: the length of the slice.
    """
    steps, total_seconds = 1, 0.0
    while total_seconds < WARM_UP_SLICES * slice_seconds:
        seconds = seconds_of(steps * step)
        total_seconds += seconds
        steps = max(round(steps * slice_seconds / max(seconds, slice_seconds / 10)), 1)
    return steps * step


def microseconds(seconds: Sequence[float | None], count: int) -> float | None:
    """Return the median per message of slices of ``count`` messages; None if it is unknown."""
    return None if None in seconds else median(seconds) / count * 1e6
