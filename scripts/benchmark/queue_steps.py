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
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rsmq import RSMQ
from rsmq.operations.operation import Operation
from rsmq.operations.queues import describe_queues, list_queues, list_queues_in_steps
from rsmq.web.activity.operations import queue_activities, queue_rates, queue_states
from rsmq.web.operations import sort_values
from rsmq.wire.keys import Namespace
from scripts.benchmark.server import Server

_ROUNDS = 3
_MAX_ENTRIES = 100_000
#: Steps take longer, and the commands inside their scripts do not.
_NOTED_US = 20

_Read = Callable[[Namespace, Sequence[str]], Operation[Any]]


def _activities(namespace: Namespace, names: Sequence[str]) -> Operation[Any]:
    return queue_activities(namespace, dict.fromkeys(names))


#: The reads, and the queues in a step of each.
_READS: tuple[tuple[str, _Read, int], ...] = (
    ("visible", partial(sort_values, sort="visible"), 150),
    ("oldest", partial(sort_values, sort="oldest"), 150),
    ("rates", queue_rates, 150),
    ("states", partial(queue_states, fresh_seconds=3600), 50),
    ("activities", _activities, 50),
    ("attributes", describe_queues, 50),
)


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

    def read_all(read: _Read, step: int) -> None:
        for at in range(0, len(names), step):
            client.run(read(namespace, names[at : at + step]))

    _measure(server, f"{state}: names at once", lambda: client.run(list_queues(namespace)))
    _measure(server, f"{state}: names in steps", list_in_steps)
    for name, read, step in _READS:
        _measure(server, f"{state}: {name} of {step}", partial(read_all, read, step))
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
        f"{title:28} {len(times) // _ROUNDS:4} steps, median {statistics.median(times):5.0f} µs, "
        f"maximum {max(times):6} µs",
        flush=True,
    )


if __name__ == "__main__":
    main()
