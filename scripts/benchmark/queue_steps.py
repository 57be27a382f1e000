"""
How long each step of a read of many queues holds Redis.

    .venv/bin/python -m scripts.benchmark.queue_steps [QUEUES]

It makes queues (10,000), reads them in the steps of the dashboard, first empty and then with three
visible and two delayed messages each, and prints the median of the time of each kind of step, as
Redis measures it in SLOWLOG. The maximum also has the time that other work took the processor.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from rsmq import RSMQ
from rsmq.figures.facts import ACTIVITY, ATTRIBUTES, BACKLOG, RATES, QueueFact
from rsmq.figures.reading import read_queues_in_steps
from rsmq.operations.queues import list_queues, list_queues_in_steps
from scripts.benchmark.server import Server

_ROUNDS = 3
_MAX_ENTRIES = 100_000
#: Steps take longer, and the commands inside their scripts do not.
_NOTED_US = 20

#: The facts that are read together.
_READS: tuple[tuple[QueueFact[Any], ...], ...] = (
    (RATES,), (BACKLOG,), (ACTIVITY,), (ATTRIBUTES,), (ATTRIBUTES, BACKLOG, ACTIVITY),
)  # fmt: skip


def main() -> None:
    """Fill, measure and print."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    names = [f"q{each:05}" for each in range(number)]
    with Server() as server, RSMQ.from_url(server.url) as client:
        for name in names:
            client.create_queue(name)
        _measure_all(server, client, names, "empty")
        for name in names:
            client.send_messages(name, ["x"] * 3)
            client.send_messages(name, ["x"] * 2, delay=1000)
        _measure_all(server, client, names, "filled")


def _measure_all(server: Server, client: RSMQ, names: list[str], state: str) -> None:
    server.client.config_set("slowlog-max-len", _MAX_ENTRIES)
    server.client.config_set("slowlog-log-slower-than", _NOTED_US)
    namespace = client.namespace

    def list_in_steps() -> None:
        client.run_steps(list_queues_in_steps(namespace))

    def read_all(facts: tuple[QueueFact[Any], ...]) -> None:
        client.run_steps(read_queues_in_steps(namespace, names, *facts))

    _measure(server, f"{state}: names at once", lambda: client.run(list_queues(namespace)))
    _measure(server, f"{state}: names in steps", list_in_steps)
    for facts in _READS:
        title = ", ".join(each.name for each in facts)
        _measure(server, f"{state}: {title}", partial(read_all, facts))
    server.client.config_set("slowlog-log-slower-than", -1)


def _measure(server: Server, title: str, call: Callable[[], object]) -> None:
    call()  # loads the script
    server.client.slowlog_reset()
    for _ in range(_ROUNDS):
        call()
    times = [
        entry["duration"]
        for entry in server.client.slowlog_get(_MAX_ENTRIES)
        if entry["command"].split()[0] in {b"EVALSHA", b"SSCAN"}
    ]
    print(
        f"{title:40} {len(times) // _ROUNDS:4} steps, median {statistics.median(times):5.0f} µs, "
        f"maximum {max(times):6} µs",
        flush=True,
    )


if __name__ == "__main__":
    main()
