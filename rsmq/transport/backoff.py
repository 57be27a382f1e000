"""
Exponential back-off with jitter.
"""

from __future__ import annotations

import random

#: Not the generator of the module, which the application may seed.
_chance = random.SystemRandom()


def exponential_seconds(
    attempt: int, first: float, longest: float, *, factor: float = 2.0
) -> float:
    """
    Return the pause after an attempt, in seconds, without jitter.

    Args:
        attempt: the number of the attempt, from 1.
        first: the pause after the first attempt, seconds.
        longest: the longest pause, seconds.
        factor: the factor by which each pause is longer than the one before, from 1 to 1,000.
    """
    return min(first * factor ** min(attempt - 1, 100), longest)


def with_jitter(seconds: float, low: float = 0.5, high: float = 1.0) -> float:
    """Return a pause times a random factor, so that many clients do not act at the same time."""
    return seconds * _chance.uniform(low, high)
