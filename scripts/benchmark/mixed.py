"""
Mixed traffic over a line of 50 ms: small and large bodies, several queues, sends with a time limit.

    .venv/bin/python -m scripts.benchmark.mixed [--rounds N] [--cycles N]

Each caller sends a message, receives one from the same queue and deletes it, again and again. All
callers of a slice run at the same time. Slices are in random order. The processor time is that of
the client, and of the server's main thread; the proxy that delays is not counted.
"""

from __future__ import annotations

import argparse
import random
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from rsmq import RSMQ
from scripts.benchmark.cases import LARGE, SMALL
from scripts.benchmark.contender import CONTENDERS, Contender, ContenderFailed
from scripts.benchmark.delay import DelayProxy
from scripts.benchmark.figures import Track, percentile, show_digits, summary, table
from scripts.benchmark.queues import create_body
from scripts.benchmark.server import Server
from scripts.benchmark.slices import microseconds

ROUND_TRIP_SECONDS = 0.05
CALLS_OF_MESSAGE = 3
QUEUES = [f"mixed-{number}" for number in range(5)]
#: The sizes of the bodies, in turns. Their number and that of the queues have no common divisor.
SIZES = (SMALL, SMALL, SMALL, LARGE)
#: The time limit of each send.
LIMIT_SECONDS = 5.0
AT_A_TIME = (10, 50, 200)
NODE = "Node rsmq"
#: The contenders, and the variant of each, by label.
KINDS = {
    "rsmq, threads": ("ours", "threads"),
    "rsmq, asyncio": ("ours", "asyncio"),
    NODE: ("node", ""),
}


@dataclass(frozen=True)
class Slice:
    """
    The times of one slice.

    Attributes:
        milliseconds: of each call.
        server_cpu: seconds.
    """

    seconds: float
    client_cpu: float
    server_cpu: float
    milliseconds: list[float]


class Mixed:
    """The contenders, whose connections have the delay, and the server."""

    def __init__(self, server: Server, contenders: dict[str, Contender]) -> None:
        self._server = server
        self._contenders = contenders
        self._rsmq = RSMQ(server.client)
        self._bodies = [create_body(size) for size in SIZES]

    def measure(self, rounds: int, cycles: int, track: Track) -> list[dict[str, Any]]:
        """
        Measure all clients with each number of callers.

        Args:
            rounds: the slices of each.
            cycles: the messages of each caller in a slice.
            track: shows the progress.
        """
        turns = [(kind, at_a_time) for kind in KINDS for at_a_time in AT_A_TIME]
        for turn in turns:
            self._slice(*turn, 1)  # opens connections, and loads scripts
        slices: dict[tuple[str, int], list[Slice]] = {turn: [] for turn in turns}
        schedule = [turn for _ in range(rounds) for turn in random.sample(turns, len(turns))]
        for turn in track(schedule, description="Mixed traffic"):
            slices[turn].append(self._slice(*turn, cycles))
        return [_result(*turn, turn[1] * cycles, slices[turn]) for turn in turns]

    def _slice(self, kind: str, at_a_time: int, cycles: int) -> Slice:
        self._server.client.flushdb()
        for queue in QUEUES:
            self._rsmq.create_queue(queue)
        contender, way = KINDS[kind]
        count = at_a_time * cycles
        cpu = self._server.cpu_seconds()
        reply = self._contenders[contender].request(
            "mix", way=way, queues=QUEUES, bodies=self._bodies, count=count, at_a_time=at_a_time,
            limit=LIMIT_SECONDS,
        )  # fmt: skip
        server_cpu = self._server.cpu_seconds() - cpu
        self._check(kind, count, reply)
        return Slice(reply["seconds"], reply["cpu_seconds"], server_cpu, reply["milliseconds"])

    def _check(self, kind: str, count: int, reply: dict[str, Any]) -> None:
        found = [self._rsmq.get_queue_attributes(queue) for queue in QUEUES]
        actual = (
            sum(each.messages for each in found),
            sum(each.total_sent for each in found),
            sum(each.total_received for each in found),
            reply["characters"],
            len(reply["milliseconds"]),
        )
        characters = sum(SIZES[number % len(SIZES)] for number in range(count))
        expected = (0, count, count, characters, CALLS_OF_MESSAGE * count)
        if actual != expected:
            raise ContenderFailed(
                f"{kind}: {actual} messages left, sent, received, characters and calls, "
                f"not {expected}."
            )


def _result(kind: str, at_a_time: int, count: int, slices: list[Slice]) -> dict[str, Any]:
    calls = [each for part in slices for each in part.milliseconds]
    return {
        "contender": kind,
        "at_a_time": at_a_time,
        "messages_per_second": summary([count / each.seconds for each in slices]),
        "client_cpu_us": microseconds([each.client_cpu for each in slices], count),
        "server_cpu_us": microseconds([each.server_cpu for each in slices], count),
        "call_p50_ms": percentile(calls, 50),
        "call_p99_ms": percentile(calls, 99),
    }


def report(results: list[dict[str, Any]]) -> str:
    """Return the table, and how it was measured."""
    rows = []
    for each in results:
        least = CALLS_OF_MESSAGE * ROUND_TRIP_SECONDS
        rate, most = each["messages_per_second"]["median"], each["at_a_time"] / least
        cpu = f"{each['client_cpu_us']:.0f} / {each['server_cpu_us']:.0f}"
        rows.append(
            [each["contender"], f"{each['at_a_time']}", show_digits(rate), f"{rate / most:.2f}x",
             cpu, f"{each['call_p50_ms']:.1f}", f"{each['call_p99_ms']:.1f}"]
        )  # fmt: skip
    headings = ["", "at a time", "messages a second", "of the possible", "CPU"]
    return (
        table([*headings, "call, p50 ms", "call, p99 ms"], rows)
        + f"\nOver a proxy with a round trip of {ROUND_TRIP_SECONDS * 1000:g} ms, on all "
        f"processors: messages of 100 B (three of four) and 10 KB on {len(QUEUES)} queues. Each "
        f"caller sends with a time limit of {LIMIT_SECONDS:g} s, receives and deletes, one call "
        "after the other: three round trips. Node's send and receive have two each.\n"
        "CPU: µs a message, client / server.\n"
    )


def measure(rounds: int, cycles: int, track: Track) -> list[dict[str, Any]]:
    """Start a server, the proxy and the contenders, and measure."""
    with ExitStack() as stack:
        server = stack.enter_context(Server())
        proxy = stack.enter_context(DelayProxy(server.port, ROUND_TRIP_SECONDS))
        contenders = {
            name: stack.enter_context(Contender(name, CONTENDERS[name], proxy.port))
            for name, _ in KINDS.values()
        }
        return Mixed(server, contenders).measure(rounds, cycles, track)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="mixed")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cycles", type=int, default=20)
    arguments = parser.parse_args()
    print(
        report(
            measure(
                arguments.rounds,
                arguments.cycles,
                lambda schedule, description: schedule,  # noqa: ARG005 - no progress bar
            )
        )
    )


if __name__ == "__main__":
    main()
