"""
How long after an unmodified Node client sends does a waiting receiver have the message.

Node takes the time before it sends, and the receiver when its call has returned, both from the
machine's monotonic clock. Beside it: BLPOP, woken by an LPUSH of the same Node process.
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
PAUSES = (10, 40)  # between two messages, milliseconds
SETTLED = 0.2  # seconds after which nobody has anything left to do but wait
CLOCK_CHECKS = 20

BLPOP = "BLPOP, woken by LPUSH"
ONE_WAITER = "receive_message, 1 waiting thread"
ASYNCIO_WAITER = "receive_message, 1 waiting asyncio task"
MANY_WAITERS = "receive_message, 50 waiting threads"

# label: how the receiver waits, how often, and what Node does
KINDS = {
    BLPOP: ("blpop", 1, "lpush"),
    ONE_WAITER: ("threads", 1, "sendMessage"),
    ASYNCIO_WAITER: ("task", 1, "sendMessage"),
    MANY_WAITERS: ("threads", 50, "sendMessage"),
}


@dataclass(frozen=True)
class Slice:
    """
    Some messages of one kind of waiting.

    Attributes:
        woken: how long after the sending each was there, milliseconds.
        sent: how long Node's own call took, milliseconds.
        receives: how many receives the server ran for them.
    """

    woken: list[float]
    sent: list[float]
    receives: int


class WakeUp:
    """Node, which sends, and the process that waits."""

    def __init__(self, server: Server, node: Contender, waiting: Contender) -> None:
        self._server = server
        self._node = node
        self._waiting = waiting
        self._rsmq = RSMQ(server.client)

    def measure(self, rounds: int, messages: int, track: Track) -> dict[str, dict[str, Any]]:
        """All kinds of waiting in turns, some messages each."""
        self._check_clocks()
        for kind in KINDS:
            self._slice(kind, 1)  # connections and scripts are made ready
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
        self._waiting.ask("start", way=way, queue=QUEUE, count=count)
        time.sleep(SETTLED)
        before = self._server.calls("evalsha")
        pauses = [random.uniform(*PAUSES) for _ in range(messages)]  # noqa: S311 - no secrets
        sent = self._node.ask("signal", way=signal, queue=QUEUE, pauses=pauses)["milliseconds"]
        time.sleep(SETTLED)
        # Each message is deleted by one call; all the others are receives.
        receives = self._server.calls("evalsha") - before - messages
        woken = self._waiting.ask("stop")["milliseconds"]
        if len(woken) != messages:
            raise ContenderFailed(f"{kind}: {len(woken)} messages of {messages} have arrived.")
        return Slice(woken, sent, receives)

    def _check_clocks(self) -> None:
        for _ in range(CLOCK_CHECKS):
            before = time.monotonic_ns()
            there = int(self._node.ask("clock")["nanoseconds"])
            if not before < there < time.monotonic_ns():
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
