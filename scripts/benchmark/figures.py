"""Readings: iteration with progress, their statistics, and tables of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

#: Iterates over a list, and shows the progress under a description.
Track = Callable[..., Iterable[Any]]


def summary(readings: Sequence[float]) -> dict[str, Any]:
    """Return the median, and the range of the middle half of the readings."""
    low, median, high = statistics.quantiles(readings, n=4, method="inclusive")
    return {"median": median, "middle_half": [low, high], "readings": list(readings)}


def percentile(readings: Sequence[float], percent: int) -> float:
    """Return the reading that ``percent`` % of the readings do not exceed."""
    return statistics.quantiles(readings, n=100, method="inclusive")[percent - 1]


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def show_digits(number: float) -> str:
    """Format a number with three significant digits."""
    return f"{float(f'{number:.3g}'):,.0f}"
