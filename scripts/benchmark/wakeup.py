"""
The time from a send by an unmodified Node client to the return of a waiting receive.

Node reads the machine's monotonic clock before it sends, and the receiver reads it when its call
has returned. For comparison: BLPOP, woken by an LPUSH of the same Node process.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Any

from rsmq import RSMQ
from scripts.benchmark.contender import Contender, ContenderFailed
from scripts.benchmark.figures import Track, percentile
from scripts.benchmark.server import Server

QUEUE = "signals"
PAUSE_RANGE_MS = (10, 40)  # between two messages
SETTLE_SECONDS = 0.2  # after which all processes only wait
CLOCK_CHECKS = 20

BLPOP = "BLPOP, woken by LPUSH"
ONE_WAITER = "receive_message, 1 waiting thread"
ASYNCIO_WAITER = "receive_message, 1 waiting asyncio task"
MANY_WAITERS = "receive_message, 50 waiting threads"

# By label: how the receiver waits, the number of waiters, and how Node wakes them.
KINDS = {
    BLPOP: ("blpop", 1, "lpush"),
    ONE_WAITER: ("threads", 1, "sendMessage"),
    ASYNCIO_WAITER: ("task", 1, "sendMessage"),
    MANY_WAITERS: ("threads", 50, "sendMessage"),
}


@dataclass(frozen=True)
class Slice:
    """
    The measurements of messages for one kind of waiting.

    Attributes:
        woken: for each message the milliseconds from its send to its arrival.
        sent: for each message the milliseconds of Node's own call.
        receives: number of receives that the server ran for them.
    """

    woken: list[float]
    sent: list[float]
    receives: int


class WakeUp:
    """The sending Node process, and the waiting process."""

    def __init__(self, server: Server, node: Contender, waiting: Contender) -> None:
        self._server = server
        self._node = node
        self._waiting = waiting
        self._rsmq = RSMQ(server.client)

    def measure(self, rounds: int, messages: int, track: Track) -> dict[str, dict[str, Any]]:
        """Measure all kinds of waiting in turns, some messages each."""
        self._check_clocks()
        for kind in KINDS:
            self._slice(kind, 1)  # prepares connections and scripts
        slices: dict[str, list[Slice]] = {kind: [] for kind in KINDS}
        schedule = [kind for _ in range(rounds) for kind in random.sample(list(KINDS), len(KINDS))]
        for kind in track(schedule, description="Wake-up"):
            slices[kind].append(self._slice(kind, messages))
        return {kind: _result(kind, slices[kind], rounds * messages) for kind in KINDS}

    def _slice(self, kind: str, messages: int) -> Slice:
        way, count, signal = KINDS[kind]
        self._server.client.flushdb()
        if kind != BLPOP:
            self._rsmq.create_queue(QUEUE)
        self._waiting.request("start", way=way, queue=QUEUE, count=count)
        time.sleep(SETTLE_SECONDS)
        before = self._server.calls("evalsha")
        pauses = [random.uniform(*PAUSE_RANGE_MS) for _ in range(messages)]  # noqa: S311 - no secrets
        sent = self._node.request("signal", way=signal, queue=QUEUE, pauses=pauses)["milliseconds"]
        time.sleep(SETTLE_SECONDS)
        # Each message is deleted by one call; all other calls are receives.
        receives = self._server.calls("evalsha") - before - messages
        woken = self._waiting.request("stop", messages=messages)["milliseconds"]
        if len(woken) != messages:
            raise ContenderFailed(f"{kind}: {len(woken)} messages of {messages} have arrived.")
        return Slice(woken, sent, receives)

    def _check_clocks(self) -> None:
        for _ in range(CLOCK_CHECKS):
            before = time.monotonic_ns()
            node_ns = int(self._node.request("clock")["nanoseconds"])
            if not before < node_ns < time.monotonic_ns():
                raise ContenderFailed("Node's monotonic clock is not Python's.")


def _result(kind: str, slices: list[Slice], messages: int) -> dict[str, Any]:
    woken = [each for part in slices for each in part.woken]
    sent = [each for part in slices for each in part.sent]
    receives = sum(part.receives for part in slices)
    return {
        "messages": messages,
        "p50_ms": percentile(woken, 50),
        "p90_ms": percentile(woken, 90),
        "p99_ms": percentile(woken, 99),
        "node_call_p50_ms": percentile(sent, 50),
        "receives_per_message": None if kind == BLPOP else receives / messages,
    }
