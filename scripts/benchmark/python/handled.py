"""The handler of all workers: records the length of a body, and does nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Callable

_lengths: list[int] = []


def handle(body: str) -> None:
    """Record a body; safe in any thread, because an append is atomic."""
    _lengths.append(len(body))


def take_characters() -> int:
    """Return the number of characters that were handled since the last call."""
    characters = sum(_lengths)
    _lengths.clear()
    return characters


class Countdown:
    """A counter that calls a function after ``count`` steps, from any threads."""

    def __init__(self, count: int, when_done: Callable[[], object]) -> None:
        self._count = count
        self._when_done = when_done
        self._numbers = itertools.count(1)

    def step(self) -> None:
        """Count one step."""
        if next(self._numbers) == self._count:
            self._when_done()
