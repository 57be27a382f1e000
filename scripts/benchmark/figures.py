"""Many readings: how they are gone through, and what they come to."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

#: Goes through a list, and shows a person under a description how far it is.
Track = Callable[..., Iterable[Any]]


def summary(readings: Sequence[float]) -> dict[str, Any]:
    """The median, and between what the middle half of the readings lies."""
    low, median, high = statistics.quantiles(readings, n=4, method="inclusive")
    return {"median": median, "middle_half": [low, high], "readings": list(readings)}


def percentile(readings: Sequence[float], percent: int) -> float:
    """The reading that ``percent`` of 100 do not exceed."""
    return statistics.quantiles(readings, n=100, method="inclusive")[percent - 1]
