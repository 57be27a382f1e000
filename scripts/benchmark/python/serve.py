"""The part of a contender in Python that answers: ../contender.py has the format."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any


def serve(**operations: Callable[..., dict[str, Any]]) -> None:
    """Answer questions from standard input until it ends."""
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = operations[question.pop("op")](**question)
        except Exception as error:  # noqa: BLE001 - whoever asked reports it
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


class Stopwatch:
    """Takes the time from when it is made."""

    def __init__(self) -> None:
        self._taken: dict[str, Any] = {}
        self._cpu, self._begin = time.process_time(), time.perf_counter()

    def stop(self) -> None:
        """Take the time."""
        seconds = time.perf_counter() - self._begin
        self._taken = {"seconds": seconds, "cpu_seconds": time.process_time() - self._cpu}

    def answer(self, characters: int) -> dict[str, Any]:
        """How long it took until the stop, and how many characters of bodies were read."""
        return {**self._taken, "characters": characters}


def timed(work: Callable[[], int]) -> dict[str, Any]:
    """Do the work; how long it took, and how many characters of bodies it read."""
    stopwatch = Stopwatch()
    characters = work()
    stopwatch.stop()
    return stopwatch.answer(characters)
