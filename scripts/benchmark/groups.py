"""
The cost of groups for the server: calls beside those of a plain queue, and sweeps.

    .venv/bin/python -m scripts.benchmark.groups [MESSAGES] [ROUNDS]

All figures are processor time of the thread of Redis that runs commands. It prints

- for a plain queue, for a queue of 100,000 groups, for one group, for limit keys of which 10 and
  100 messages may run, and for a rate, each with 100,000 messages: the time of a send, and of a
  receive with its delete, in interleaved rounds, and the ratio of their sum to that of the plain
  queue;
- for MESSAGES messages that are held back (300,000), in groups of several sizes: the time of a
  sweep, its share of a minute, and its longest step by the server's clock.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rsmq import RSMQ
from scripts.benchmark.server import Server

HELD_BACK, ROUNDS = 300_000, 5
STORED, CALLS, BATCH = 100_000, 2000, 5000


class Clock:
    """The processor time of the server's main thread."""

    def __init__(self, server: Server) -> None:
        pid = server.client.info("server")["process_id"]
        self._path = Path(f"/proc/{pid}/task/{pid}/schedstat")

    def measure(self, call: Callable[[], object]) -> float:
        """Return how many ms a call needs."""
        before = self._now()
        call()
        return (self._now() - before) / 1e6

    def _now(self) -> int:
        return int(self._path.read_text().split()[0])


class Kind(NamedTuple):
    """
    How messages are sent.

    Attributes:
        option: ``group`` or ``limit_key``.
        name_of: returns its value for the number of a message.
        limits: the options of a limit key.
    """

    option: str
    name_of: Callable[[int], str | None]
    limits: dict[str, Any]

    def fill(self, rsmq: RSMQ, queue: str, messages: int) -> None:
        """Create a queue of messages."""
        rsmq.create_queue(queue, vt=3600)
        for first in range(0, messages, BATCH):
            numbers = range(first, min(first + BATCH, messages))
            names = {f"{self.option}s": [*map(self.name_of, numbers)]}
            rsmq.send_messages(queue, ["b" * 100] * len(numbers), **names, **self.limits)

    def send_each(self, rsmq: RSMQ, queue: str) -> None:
        """Send messages one by one."""
        for number in range(CALLS):
            name: dict[str, Any] = {self.option: self.name_of(number)}
            rsmq.send_message(queue, "b" * 100, **name, **self.limits)


def name_group(groups: int, number: int) -> str:
    """Return the group of a message."""
    return f"customer-{number % groups}"


def consume_each(rsmq: RSMQ, queue: str) -> None:
    """Receive and delete messages one by one."""
    for _ in range(CALLS):
        message = rsmq.receive_message(queue)
        if message is not None:
            rsmq.delete_message(message)


def measure_calls(rsmq: RSMQ, clock: Clock, rounds: int) -> None:
    """Print what calls cost in queues with groups, and in one without."""
    queues = {
        "plain": Kind("group", lambda _: None, {}),
        "many-groups": Kind("group", lambda n: f"customer-{n * 7919 % STORED}", {}),
        "one-group": Kind("group", lambda _: "customer", {}),
        "10-of-1-key": Kind("limit_key", lambda _: "tenant", {"max_running": 10}),
        "10-of-1000-keys": Kind("limit_key", lambda n: f"t-{n % 1000}", {"max_running": 10}),
        "100-of-1-key": Kind("limit_key", lambda _: "tenant", {"max_running": 100}),
        "rate": Kind("limit_key", lambda _: "api", {"rate": "1000000/s"}),
    }
    for queue, kind in queues.items():
        kind.fill(rsmq, queue, STORED)
    times = defaultdict(list)
    for _ in range(rounds):
        for queue, kind in queues.items():
            send = partial(kind.send_each, rsmq, queue)
            times[queue, "send"].append(clock.measure(send))
            times[queue, "consume"].append(clock.measure(partial(consume_each, rsmq, queue)))
    print(f"{'µs of the server':20}{'send':>12}{'receive and delete':>24}{'ratio':>8}")
    sums = {}
    for queue in queues:
        per_call = [
            statistics.median(times[queue, name]) * 1000 / CALLS for name in ("send", "consume")
        ]
        sums[queue] = sum(per_call)
        ratio = sums[queue] / sums["plain"]
        print(f"{queue:20}{per_call[0]:>12.1f}{per_call[1]:>24.1f}{ratio:>8.2f}")


def measure_sweeps(rsmq: RSMQ, server: Server, clock: Clock, messages: int) -> None:
    """Print what sweeps cost."""
    print(f"\n{'sweep':32}{'time':>12}{'of a minute':>14}{'longest step':>16}")
    server.client.config_set("slowlog-log-slower-than", 100)
    server.client.config_set("slowlog-max-len", 100_000)
    for size in (2, 10, 1000, messages):
        groups = messages // (size - 1)
        server.client.flushall()
        Kind("group", partial(name_group, groups), {}).fill(rsmq, "q", groups * size)
        for name in ("nothing to do", "all groups stuck"):
            if name == "all groups stuck":
                delete_admitted(server)
            server.client.slowlog_reset()
            ms = clock.measure(lambda: rsmq.sweep_groups("q"))
            longest = max(each["duration"] for each in server.client.slowlog_get(100_000)) / 1000
            label = f"{groups:,} groups, {name}"
            print(f"{label:32}{ms:>9.0f} ms{ms / 600:>12.2f} %{longest:>13.2f} ms", flush=True)


def delete_admitted(server: Server) -> None:
    """Delete the messages that are admitted, as Node does."""
    members: list[bytes] = server.client.zrange("rsmq:q:x:admitted", 0, -1)
    ids = [member.rpartition(b"\0")[2] for member in members]
    for at in range(0, len(ids), BATCH):
        server.client.zrem("rsmq:q", *ids[at : at + BATCH])
        server.client.hdel("rsmq:q:Q", *ids[at : at + BATCH])


def main() -> None:
    """Print both tables."""
    arguments = [*map(int, sys.argv[1:])]
    messages, rounds = arguments + [HELD_BACK, ROUNDS][len(arguments) :]
    with Server() as server, RSMQ.from_url(server.url) as rsmq:
        clock = Clock(server)
        measure_calls(rsmq, clock, rounds)
        measure_sweeps(rsmq, server, clock, messages)


if __name__ == "__main__":
    main()
