"""The request loop of a contender in Python; ../contender.py describes the format."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any


def serve(**operations: Callable[..., dict[str, Any]]) -> None:
    """Reply to requests from standard input until it ends."""
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = operations[request.pop("op")](**request)
        except Exception as error:  # noqa: BLE001 - the benchmark reports it
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), flush=True)


class Stopwatch:
    """A stopwatch that starts when it is created; child processes that have ended count too."""

    def __init__(self) -> None:
        self._times: dict[str, Any] = {}
        self._cpu, self._begin = _cpu_seconds(), time.perf_counter()

    def stop(self) -> None:
        """Stop, and store the times."""
        seconds = time.perf_counter() - self._begin
        self._times = {"seconds": seconds, "cpu_seconds": _cpu_seconds() - self._cpu}

    def reply(self, characters: int) -> dict[str, Any]:
        """Return the stored times, and the number of characters of bodies that were read."""
        return {**self._times, "characters": characters}


def _cpu_seconds() -> float:
    """Return the processor time of this process, and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def measure(work: Callable[[], int]) -> dict[str, Any]:
    """Run the work; return its times, and the number of characters of bodies that it read."""
    stopwatch = Stopwatch()
    characters = work()
    stopwatch.stop()
    return stopwatch.reply(characters)
