"""
Messages per second.

Each case processes a fixed number of messages: as many as take about one slice of time. In each
round every case has one slice, in random order, so that other load on the machine affects all cases
equally. Queues are filled before a slice, and checked after it.
"""

from __future__ import annotations

import random
from typing import Any

from rsmq import RSMQ
from scripts.benchmark.cases import CASES, LIMITS, OURS, SIZES, Action, Case
from scripts.benchmark.contender import Contender, ContenderFailed
from scripts.benchmark.figures import Track, summary
from scripts.benchmark.limit import RedisBenchmark
from scripts.benchmark.queues import create_body, fill
from scripts.benchmark.server import Server
from scripts.benchmark.slices import Slice, messages_per_slice, microseconds

QUEUE = "bench"


class Throughput:
    """The cases, and the contenders that run them."""

    def __init__(self, server: Server, contenders: dict[str, Contender]) -> None:
        self._server = server
        self._contenders = contenders
        self._limit = RedisBenchmark(server)
        self._rsmq = RSMQ(server.client)

    def measure(self, rounds: int, slice_seconds: float, track: Track) -> list[dict[str, Any]]:
        """Measure all cases, with all sizes of bodies."""
        turns = [(case, size) for case in CASES for size in SIZES]
        counts = {
            turn: self._count_for(*turn, slice_seconds)
            for turn in track(turns, description="Messages in a slice")
        }
        slices: dict[tuple[Case, int], list[Slice]] = {turn: [] for turn in turns}
        schedule = [turn for _ in range(rounds) for turn in random.sample(turns, len(turns))]
        for turn in track(schedule, description="Messages a second"):
            slices[turn].append(self._slice(*turn, counts[turn]))
        results = [_result(*turn, counts[turn], slices[turn]) for turn in turns]
        for result in results:
            ours = rate(results, result["action"], OURS, result["body_bytes"])
            result["from_url_against_it"] = ours / result["messages_per_second"]["median"]
        return results

    def _count_for(self, case: Case, size: int, slice_seconds: float) -> int:
        return messages_per_slice(
            lambda count: self._slice(case, size, count).wall, case.step, slice_seconds
        )

    def _slice(self, case: Case, size: int, count: int) -> Slice:
        self._server.client.flushdb()
        self._rsmq.create_queue(QUEUE)
        if case.action == "receive":
            if case.process == "bullmq":
                self._contenders["bullmq"].request(
                    "fill", queue=QUEUE, body=create_body(size), count=count
                )
            else:
                fill(self._rsmq, QUEUE, size, count)
        cpu = self._server.cpu_seconds()
        reply = self._run(case, create_body(size), count)
        server_cpu = self._server.cpu_seconds() - cpu
        self._check(case, size, count, reply["characters"])
        return Slice(reply["seconds"], reply["cpu_seconds"], server_cpu)

    def _run(self, case: Case, body: str, count: int) -> dict[str, Any]:
        parameters = {"action": case.action, "way": case.way, "step": case.step}
        parameters |= {"queue": QUEUE, "body": body, "count": count}
        if case.process == "redis-benchmark":
            return self._limit.run(**parameters)
        return self._contenders[case.process].request("run", **parameters)

    def _check(self, case: Case, size: int, count: int, characters: int | None) -> None:
        sent, deleted = case.action == "send", case.action == "receive" and case.label not in LIMITS
        remaining = 0 if deleted else count
        if case.process == "bullmq":
            expected, actual = remaining, self._server.client.llen(f"bull:{QUEUE}:wait")
        else:
            queue = self._rsmq.get_queue_attributes(QUEUE)
            expected = (remaining, count, 0 if sent else count)
            actual = (queue.messages, queue.total_sent, queue.total_received)
        read = 0 if sent else count * size
        if actual != expected or characters not in (read, None):
            raise ContenderFailed(
                f"{case.label}, {case.action} {count} times: the queue has {actual} and should "
                f"have {expected}; {characters} characters were read, not {read}."
            )


def rate(results: list[dict[str, Any]], action: Action, contender: str, size: int) -> float:
    """Return the median messages per second."""
    return next(
        each["messages_per_second"]["median"]
        for each in results
        if (each["action"], each["contender"], each["body_bytes"]) == (action, contender, size)
    )


def _result(case: Case, size: int, count: int, slices: list[Slice]) -> dict[str, Any]:
    return {
        "action": case.action,
        "contender": case.label,
        "body_bytes": size,
        "messages_per_slice": count,
        "messages_per_second": summary([count / each.wall for each in slices]),
        "client_cpu_us": microseconds([each.client_cpu for each in slices], count),
        "server_cpu_us": microseconds([each.server_cpu for each in slices], count),
    }
