"""What the handlers of workers do: nothing, and note it."""

from __future__ import annotations

import itertools
from collections.abc import Callable

_lengths: list[int] = []


def handle(body: str) -> None:
    """Note that a body was here; from any thread, for an append is one step."""
    _lengths.append(len(body))


def take_characters() -> int:
    """How many characters were handled since this was asked last."""
    characters = sum(_lengths)
    _lengths.clear()
    return characters


class Countdown:
    """Says when a thing has been done ``count`` times, in whatever threads."""

    def __init__(self, count: int, when_done: Callable[[], object]) -> None:
        self._count = count
        self._when_done = when_done
        self._numbers = itertools.count(1)

    def step(self) -> None:
        """Once more."""
        if next(self._numbers) == self._count:
            self._when_done()
