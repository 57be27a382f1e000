"""The handler of all workers: records the length of a body, and sleeps if the case says so."""

from __future__ import annotations

import asyncio
import itertools
import mmap
import time
from collections.abc import Callable

_lengths: list[int] = []
_sleep_seconds = 0.0
_INTEGER_BYTES = 8
#: The characters that forked processes have handled; they share this memory with their parent.
_characters_of_forks = mmap.mmap(-1, _INTEGER_BYTES)


def set_sleep(milliseconds: int) -> None:
    """Set how long each call of a handler sleeps from now on; 0 is not at all."""
    global _sleep_seconds  # noqa: PLW0603 - forked processes read it too
    _sleep_seconds = milliseconds / 1000


def handle(body: str) -> None:
    """Record a body, and sleep; safe in any thread, because an append is atomic."""
    _lengths.append(len(body))
    if _sleep_seconds:
        time.sleep(_sleep_seconds)


async def handle_async(body: str) -> None:
    """Record a body, and sleep without occupying the thread."""
    _lengths.append(len(body))
    if _sleep_seconds:
        await asyncio.sleep(_sleep_seconds)


def handle_in_fork(body: str) -> None:
    """Record a body for the parent process, and sleep; one fork may run at a time."""
    _write_characters_of_forks(_read_characters_of_forks() + len(body))
    if _sleep_seconds:
        time.sleep(_sleep_seconds)


def take_characters() -> int:
    """Return the number of characters that were handled since the last call."""
    characters = sum(_lengths) + _read_characters_of_forks()
    _lengths.clear()
    _write_characters_of_forks(0)
    return characters


def _read_characters_of_forks() -> int:
    return int.from_bytes(_characters_of_forks[:], "little")


def _write_characters_of_forks(characters: int) -> None:
    _characters_of_forks[:] = characters.to_bytes(_INTEGER_BYTES, "little")


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
