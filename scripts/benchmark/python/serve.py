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


def timed(work: Callable[[], int]) -> dict[str, Any]:
    """Do the work; how long it took, and how many characters of bodies it read."""
    cpu, begin = time.process_time(), time.perf_counter()
    characters = work()
    seconds = time.perf_counter() - begin
    return {
        "seconds": seconds,
        "cpu_seconds": time.process_time() - cpu,
        "characters": characters,
    }
