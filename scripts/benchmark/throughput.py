"""
How many messages a second.

Each case does a fixed number of messages, as many as it does in about one slice of time. In each
round every case has one slice, in random order, so that what else the machine does meets all
alike. Queues are filled before a slice, and looked at after it.
"""

from __future__ import annotations

import random
from typing import Any

from rsmq import RSMQ
from scripts.benchmark.cases import CASES, LIMITS, OURS, SIZES, Action, Case
from scripts.benchmark.contender import Contender, ContenderFailed
from scripts.benchmark.figures import Track, summary
from scripts.benchmark.limit import RedisBenchmark
from scripts.benchmark.queues import body_of, fill
from scripts.benchmark.server import Server
from scripts.benchmark.slices import Slice, count_for, microseconds

QUEUE = "bench"


class Throughput:
    """The cases, and who does them."""

    def __init__(self, server: Server, contenders: dict[str, Contender]) -> None:
        self._server = server
        self._contenders = contenders
        self._limit = RedisBenchmark(server)
        self._rsmq = RSMQ(server.client)

    def measure(self, rounds: int, slice_seconds: float, track: Track) -> list[dict[str, Any]]:
        """All cases, with all sizes of bodies."""
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
        return count_for(
            lambda count: self._slice(case, size, count).wall, case.step, slice_seconds
        )

    def _slice(self, case: Case, size: int, count: int) -> Slice:
        self._server.client.flushdb()
        self._rsmq.create_queue(QUEUE)
        if case.action == "receive":
            if case.process == "bullmq":
                self._contenders["bullmq"].ask("fill", queue=QUEUE, body=body_of(size), count=count)
            else:
                fill(self._rsmq, QUEUE, size, count)
        cpu = self._server.cpu_seconds()
        answer = self._run(case, body_of(size), count)
        server_cpu = self._server.cpu_seconds() - cpu
        self._check(case, size, count, answer["characters"])
        return Slice(answer["seconds"], answer["cpu_seconds"], server_cpu)

    def _run(self, case: Case, body: str, count: int) -> dict[str, Any]:
        question = {"action": case.action, "way": case.way, "step": case.step}
        question |= {"queue": QUEUE, "body": body, "count": count}
        if case.process == "redis-benchmark":
            return self._limit.run(**question)
        return self._contenders[case.process].ask("run", **question)

    def _check(self, case: Case, size: int, count: int, characters: int | None) -> None:
        sent, deleted = case.action == "send", case.action == "receive" and case.label not in LIMITS
        left = 0 if deleted else count
        if case.process == "bullmq":
            expected, found = left, self._server.client.llen(f"bull:{QUEUE}:wait")
        else:
            queue = self._rsmq.get_queue_attributes(QUEUE)
            expected = (left, count, 0 if sent else count)
            found = (queue.messages, queue.total_sent, queue.total_received)
        read = 0 if sent else count * size
        if found != expected or characters not in (read, None):
            raise ContenderFailed(
                f"{case.label}, {case.action} {count} times: the queue has {found} and should have "
                f"{expected}; {characters} characters were read, not {read}."
            )


def rate(results: list[dict[str, Any]], action: Action, contender: str, size: int) -> float:
    """Messages a second, median."""
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
