"""The cost of a call and the memory of a message, by the number of messages in the queue."""

from __future__ import annotations

import random
import time
from typing import Any

from rsmq import RSMQ
from scripts.benchmark.cases import LARGE, SMALL
from scripts.benchmark.figures import Track, summary
from scripts.benchmark.queues import create_body, fill
from scripts.benchmark.server import Server

CALLS_PER_SLICE = 300  # calls of each kind in a slice
LARGE_DEPTH = 10_000


def measure(
    server: Server, depths: tuple[int, ...], rounds: int, track: Track
) -> dict[str, list[dict[str, Any]]]:
    """Measure queues of all depths, in turns."""
    server.client.flushdb()
    with RSMQ.from_url(server.url) as rsmq:
        large = _fill(server, rsmq, "large", LARGE, LARGE_DEPTH)
        server.client.flushdb()
        small = [
            _fill(server, rsmq, str(depth), SMALL, depth)
            for depth in track(depths, description="Deep queues")
        ]
        microseconds = {depth: {"send": [], "receive": [], "delete": []} for depth in depths}
        schedule = [depth for _ in range(rounds) for depth in random.sample(depths, len(depths))]
        for depth in track(schedule, description="Depth"):
            for call, seconds in _slice(rsmq, str(depth)).items():
                microseconds[depth][call].append(seconds / CALLS_PER_SLICE * 1e6)
    calls = [
        {"depth": depth, "call": call, "us": summary(us)}
        for depth, by_call in microseconds.items()
        for call, us in by_call.items()
    ]
    return {"calls": calls, "memory": [*small, large]}


def _fill(server: Server, rsmq: RSMQ, queue: str, size: int, depth: int) -> dict[str, Any]:
    rsmq.create_queue(queue)
    before = server.client.info("memory")["used_memory"]
    fill(rsmq, queue, size, depth)
    used = server.client.info("memory")["used_memory"] - before
    return {"depth": depth, "body_bytes": size, "bytes_per_message": used / depth}


def _slice(rsmq: RSMQ, queue: str) -> dict[str, float]:
    """
    Return the seconds that the calls of each kind took; the depth of the queue does not change.
    """
    body = create_body(SMALL)
    begin = time.perf_counter()
    for _ in range(CALLS_PER_SLICE):
        rsmq.send_message(queue, body)
    sent = time.perf_counter()
    messages = [rsmq.receive_message(queue) for _ in range(CALLS_PER_SLICE)]
    received = time.perf_counter()
    for message in messages:
        rsmq.delete_message(message)
    deleted = time.perf_counter()
    return {"send": sent - begin, "receive": received - sent, "delete": deleted - received}
