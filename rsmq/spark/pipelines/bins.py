"""
The bins and the units of plots, chosen by the span of their data.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400

#: The widths of bins in seconds, and their names; wider ones are whole weeks.
_WIDTHS = {
    _MINUTE: "minute", 5 * _MINUTE: "5 minutes", 15 * _MINUTE: "15 minutes", _HOUR: "hour",
    6 * _HOUR: "6 hours", _DAY: "day", 7 * _DAY: "week",
}  # fmt: skip

#: The most bins of a plot, unless there are more weeks.
_MAX_BINS = 120

#: The units of durations, each with its seconds and the longest duration that is shown in it.
_UNITS = (
    ("seconds", 1, 3 * _MINUTE),
    ("minutes", _MINUTE, 3 * _HOUR),
    ("hours", _HOUR, 3 * _DAY),
    ("days", _DAY, float("inf")),
)


@dataclass(frozen=True, slots=True)
class Bins:
    """
    The bins of a time axis, without gaps.

    Attributes:
        starts: the start of each bin, UTC.
        seconds: the width of a bin.
        name: the width in words.
    """

    starts: list[datetime]
    seconds: int
    name: str

    def count(self, numbers: Iterable[tuple[datetime, int]]) -> list[int]:
        """Return the sum of the numbers in each bin; 0 for an empty one."""
        sums = [0] * len(self.starts)
        first = self.starts[0].timestamp()
        for time, number in numbers:
            sums[int(_to_utc(time).timestamp() - first) // self.seconds] += number
        return sums


def choose_bins(times: Iterable[datetime]) -> Bins:
    """Return bins from the first to the last of the times; naive times are UTC."""
    seconds = [_to_utc(time).timestamp() for time in times]
    first, last = min(seconds), max(seconds)
    width = next((w for w in _WIDTHS if last // w - first // w < _MAX_BINS), max(_WIDTHS))
    starts = range(int(first // width) * width, int(last) + 1, width)
    return Bins([datetime.fromtimestamp(each, UTC) for each in starts], width, _WIDTHS[width])


def choose_unit(longest: float) -> tuple[str, int]:
    """Return the unit in which durations up to ``longest`` seconds are shown, and its seconds."""
    return next((name, seconds) for name, seconds, most in _UNITS if longest <= most)


def _to_utc(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time
