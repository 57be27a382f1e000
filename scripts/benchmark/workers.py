"""
Jobs per second of workers whose handlers do nothing, or sleep.

The time is from before a worker starts, with open connections if it can keep them, until the last
job is handled and acknowledged. As with throughput, a slice has a fixed number of jobs, and each
round has all cases once, in random order. Queues are filled before a slice, each by its own
library, and checked before and after it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from rsmq import RSMQ
from scripts.benchmark.cases import SMALL, Case
from scripts.benchmark.contender import Contender, ContenderFailed
from scripts.benchmark.figures import Track, summary
from scripts.benchmark.queues import create_body, fill
from scripts.benchmark.server import Server
from scripts.benchmark.slices import Slice, messages_per_slice, microseconds
from scripts.benchmark.worker_cases import ASYNCIO, LOOP, LOOP_CONCURRENCY, THREADS

QUEUE = "bench"
# The commands that count the unfinished jobs of other libraries: waiting or in progress.
UNFINISHED_COMMANDS = {
    "rq": (("LLEN", f"rq:queue:{QUEUE}"), ("ZCARD", f"rq:wip:{QUEUE}")),
    "dramatiq": (("HLEN", f"dramatiq:{QUEUE}.msgs"),),
    "saq": (("ZCARD", f"saq:{QUEUE}:incomplete"),),
    "arq": (("ZCARD", QUEUE),),
    "bullmq": (("LLEN", f"bull:{QUEUE}:wait"), ("LLEN", f"bull:{QUEUE}:active")),
}


class Workers:
    """The contenders that run the cases."""

    def __init__(self, server: Server, contenders: dict[str, Contender]) -> None:
        self._server = server
        self._contenders = contenders
        self._rsmq = RSMQ(server.client)

    def measure(
        self, cases: Sequence[Case], rounds: int, slice_seconds: float, track: Track
    ) -> list[dict[str, Any]]:
        """Measure cases of workers."""
        counts = {
            case: self._count_for(case, slice_seconds)
            for case in track(cases, description="Jobs in a slice")
        }
        slices: dict[Case, list[Slice]] = {case: [] for case in cases}
        schedule = [case for _ in range(rounds) for case in random.sample(cases, len(cases))]
        for case in track(schedule, description="Jobs a second"):
            slices[case].append(self._slice(case, counts[case]))
        results = [_result(case, counts[case], slices[case]) for case in cases]
        for result in results:
            at_a_time = LOOP_CONCURRENCY if result["contender"] == LOOP else result["at_a_time"]
            other = result["jobs_per_second"]["median"]
            for name, label in (("threads", THREADS), ("asyncio", ASYNCIO)):
                ours = job_rate(results, label, at_a_time, result["sleep_ms"])
                result[f"{name}_against_it"] = ours / other
        return results

    def _count_for(self, case: Case, slice_seconds: float) -> int:
        return messages_per_slice(
            lambda count: self._slice(case, count).wall, case.step, slice_seconds
        )

    def _slice(self, case: Case, count: int) -> Slice:
        self._server.client.flushdb()
        body = create_body(SMALL)
        if case.process in UNFINISHED_COMMANDS:
            self._contenders[case.process].request(
                "fill", way=case.way, queue=QUEUE, body=body, count=count
            )
        else:
            self._rsmq.create_queue(QUEUE)
            fill(self._rsmq, QUEUE, SMALL, count)
        self._check(case, "waiting", self._count_unfinished(case), count)
        cpu = self._server.cpu_seconds()
        reply = self._contenders[case.process].request(
            "run",
            action=case.action,
            way=case.way,
            queue=QUEUE,
            body=body,
            count=count,
            step=case.step,
            sleep_ms=case.sleep_ms,
        )
        server_cpu = self._server.cpu_seconds() - cpu
        self._check(case, "handled", reply["characters"] / SMALL, count)
        self._check(case, "left", self._count_unfinished(case), 0)
        return Slice(reply["seconds"], reply["cpu_seconds"], server_cpu)

    def _count_unfinished(self, case: Case) -> int:
        if case.process not in UNFINISHED_COMMANDS:
            return self._rsmq.get_queue_attributes(QUEUE).messages
        client = self._server.client
        return sum(
            client.execute_command(*command) for command in UNFINISHED_COMMANDS[case.process]
        )

    def _check(self, case: Case, state: str, actual: float, expected: int) -> None:
        if actual != expected:
            raise ContenderFailed(
                f"{case.label}, {case.step} at a time: {actual:g} jobs {state}, not {expected}."
            )


def job_rate(
    results: list[dict[str, Any]], contender: str, at_a_time: int, sleep_ms: int = 0
) -> float:
    """Return the median jobs per second."""
    return next(
        each["jobs_per_second"]["median"]
        for each in results
        if (each["contender"], each["at_a_time"], each["sleep_ms"])
        == (contender, at_a_time, sleep_ms)
    )


def _result(case: Case, count: int, slices: list[Slice]) -> dict[str, Any]:
    return {
        "contender": case.label,
        "at_a_time": case.step,
        "sleep_ms": case.sleep_ms,
        "jobs_per_slice": count,
        "jobs_per_second": summary([count / each.wall for each in slices]),
        "client_cpu_us": microseconds([each.client_cpu for each in slices], count),
        "server_cpu_us": microseconds([each.server_cpu for each in slices], count),
    }
