"""
The effect of two design choices: each on and off, in turns, on one redis-server.

    .venv/bin/python -m scripts.benchmark.choices [ROUNDS]

It prints the median of the ratios of paired rounds, off to on, with the smallest and the largest.
A ratio of 1.20 means that a fifth more time is needed without the choice. The times are wall-clock
time, processor time of the client, and time in scripts.
"""

from __future__ import annotations

import hashlib
import re
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from statistics import median
from typing import Any
from unittest import mock

from rsmq import RSMQ
from rsmq.operations import messages
from rsmq.operations.scripts import Script, load
from rsmq.transport.threads import pools
from scripts.benchmark.server import Server

MESSAGES = 2000
QUEUE = "choices"


@cache
def _without_fast_path(name: str) -> Script:
    """Return a script whose condition for the fast path is never true."""
    source = load(name).source
    slow = re.sub(rb"\nif stored\[1\] and stored\[2\]", rb"\nif false and stored[2]", source)
    return Script(name, slow, hashlib.sha1(slow, usedforsecurity=False).hexdigest().encode())


def _calls(rsmq: RSMQ) -> None:
    for _ in range(MESSAGES):
        rsmq.send_message(QUEUE, "hello")
        message = rsmq.receive_message(QUEUE)
        assert message is not None  # noqa: S101 - it was sent
        rsmq.delete_message(message)


def _ratios(
    rounds: int,
    measure: Callable[[], tuple[float, ...]],
    off: Callable[[], AbstractContextManager[object]],
) -> list[list[float]]:
    pairs = []
    for number in range(rounds + 1):
        order = [nullcontext, off] if number % 2 else [off, nullcontext]
        times = {}
        for choice in order:
            with choice():
                times[choice] = measure()
        if number:  # the first round is a warm-up
            pairs.append([b / a for a, b in zip(times[nullcontext], times[off], strict=True)])
    return [sorted(column) for column in zip(*pairs, strict=True)]


class _PlainConnection:
    """A connection of redis-py that a thread's pool uses without our reading and writing."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def is_inherited(self) -> bool:
        return False

    def is_idle(self) -> bool:
        return not self._connection.can_read(timeout=0)


def main(rounds: int) -> None:
    """Measure all choices, and print a line for each."""
    with Server() as server:

        def measure(create_client: Callable[[], RSMQ]) -> tuple[float, float, float]:
            with create_client() as rsmq:  # with new connections
                wall, client, scripts = time.perf_counter(), time.process_time(), script_time()
                _calls(rsmq)
                return (
                    time.perf_counter() - wall,
                    time.process_time() - client,
                    script_time() - scripts,
                )

        def script_time() -> float:
            return server.client.info("commandstats").get("cmdstat_evalsha", {"usec": 0})["usec"]

        def create_client() -> RSMQ:
            return RSMQ.from_url(server.url)

        with create_client() as rsmq:
            rsmq.create_queue(QUEUE, vt=1000)
        choices: dict[str, tuple[Callable[[], RSMQ], Callable[[], AbstractContextManager[object]]]]
        choices = {
            "fast path in scripts": (
                create_client,
                lambda: mock.patch.object(messages, "load", _without_fast_path),
            ),
            "own socket, from_url": (
                create_client,
                lambda: mock.patch.object(pools, "SocketConnection", _PlainConnection),
            ),
        }
        for name, (create, off) in choices.items():
            columns = _ratios(rounds, partial(measure, create), off)
            figures = [
                f"{measure_name} {median(column):.3f} ({column[0]:.3f} to {column[-1]:.3f})"
                for measure_name, column in zip(("wall", "client", "scripts"), columns, strict=True)
            ]
            print(f"{name:24}", ", ".join(figures))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
