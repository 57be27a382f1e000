"""What was to be reached, and what was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from scripts.benchmark.cases import (
    ASYNCIO_100,
    BATCHES,
    HANDED_IN,
    LARGE,
    NODE,
    NODE_100,
    OURS,
    PIPELINES,
    PYRSMQ,
    SMALL,
    Action,
)
from scripts.benchmark.throughput import rate
from scripts.benchmark.wakeup import BLPOP, MANY_WAITERS, ONE_WAITER
from scripts.benchmark.worker_cases import (
    ARQ,
    ASYNCIO,
    BESIDE_LOOP,
    BULLMQ,
    DRAMATIQ,
    LOOP,
    LOOP_STEP,
    RQ,
    SAQ,
    THREADS,
)
from scripts.benchmark.workers import job_rate

BATCHES_100 = BATCHES.format(100)
SHALLOW, DEEP = 10_000, 1_000_000

Results = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """
    A line of the table.

    Attributes:
        case: what was measured, and against what.
        sign: on which side of ``bound`` the figure is to be.
        bound: the figure that was to be reached.
        unit: what stands behind the figure.
        reach: the figure, of the results of a run; None if the run did not measure it.
    """

    case: str
    sign: Literal["≥", "≤"]
    bound: float
    unit: str
    reach: Callable[[Results], float | None]

    def held_against(self, results: Results) -> dict[str, Any]:
        """The line for one run. The figure counts as it is shown, with two decimals."""
        reached = self.reach(results)
        if reached is None:
            met = None
        else:
            reached = round(reached, 2)
            met = reached >= self.bound if self.sign == "≥" else reached <= self.bound
        return {
            "case": self.case,
            "target": f"{self.sign} {self.bound:g}{self.unit}",
            "reached": reached,
            "unit": self.unit,
            "met": met,
        }


def _faster(
    case: str, bound: float, action: Action, ours: str, theirs: str, *, size: int = SMALL
) -> Target:
    def reach(results: Results) -> float:
        found = results["throughput"]
        return rate(found, action, ours, size) / rate(found, action, theirs, size)

    return Target(case, "≥", bound, "x", reach)


def _call_us(results: Results, call: str, depth: int) -> float | None:
    return next(
        (
            each["us"]["median"]
            for each in results["depth"]["calls"]
            if (each["call"], each["depth"]) == (call, depth)
        ),
        None,
    )


def _no_slower_when_deep(call: str) -> Target:
    def reach(results: Results) -> float | None:
        deep, shallow = _call_us(results, call, DEEP), _call_us(results, call, SHALLOW)
        return deep / shallow if deep and shallow else None

    return Target(
        f"{call}_message at 1,000,000 waiting messages, against 10,000", "≤", 1.5, "x", reach
    )


def _woken(bound: float) -> Target:
    def reach(results: Results) -> float:
        return results["wake_up"][ONE_WAITER]["p50_ms"] / results["wake_up"][BLPOP]["p50_ms"]

    return Target("wake-up by a Node send, p50, against BLPOP by LPUSH", "≤", bound, "x", reach)


def _share_of_loop(ours: str) -> Target:
    def reach(results: Results) -> float:
        found = results["workers"]
        return job_rate(found, ours, BESIDE_LOOP) / job_rate(found, LOOP, LOOP_STEP)

    return Target(
        f"worker, {_kind(ours)}, {BESIDE_LOOP} at a time, against "
        f"receive_messages + delete_messages, {LOOP_STEP} a call",
        "≥",
        0.6,
        "x",
        reach,
    )


def _ahead(ours: str, theirs: str, at_a_time: int) -> Target:
    def reach(results: Results) -> float:
        return min(
            job_rate(found, ours, at_a_time) / job_rate(found, theirs, at_a_time)
            for found in (results["workers"], results["workers_on_all"])
        )

    case = f"worker, {_kind(ours)}, {at_a_time} at a time, against {theirs.partition(',')[0]}"
    return Target(case, "≥", 1, "x", reach)


def _kind(ours: str) -> str:
    return ours.partition(", ")[2]


def _receives(kind: str, bound: float) -> Target:
    def reach(results: Results) -> float:
        return results["wake_up"][kind]["receives_per_message"]

    return Target(f"receives a message, {_kind(kind)}", "≤", bound, "", reach)


TARGETS = [
    _faster("send_message, against Node", 1.5, "send", OURS, NODE),
    _faster("send_message, against PyRSMQ", 5, "send", OURS, PYRSMQ),
    _faster("receive_message + delete_message, against Node", 1.35, "receive", OURS, NODE),
    _faster("receive_message + delete_message, against PyRSMQ", 4, "receive", OURS, PYRSMQ),
    _faster("send_message on a redis.Redis, against Node", 1.15, "send", HANDED_IN, NODE),
    _faster(
        "receive_message + delete_message on a redis.Redis, against Node",
        1.0,
        "receive",
        HANDED_IN,
        NODE,
    ),
    _faster("send_messages, 100 a call, against Node's 100", 6, "send", BATCHES_100, NODE_100),
    _faster(
        "send_messages, 100 a call, against pipelines of 100", 4, "send", BATCHES_100, PIPELINES
    ),
    _faster(
        "send_messages, 100 a call of 10 KB, against Node's 100",
        2.5,
        "send",
        BATCHES_100,
        NODE_100,
        size=LARGE,
    ),
    _faster(
        "receive_messages + delete_messages, 100 a call, against Node's 100",
        5,
        "receive",
        BATCHES_100,
        NODE_100,
    ),
    _faster("asyncio, 100 sends at a time, against Node's 100", 0.9, "send", ASYNCIO_100, NODE_100),
    _share_of_loop(THREADS),
    _share_of_loop(ASYNCIO),
    _ahead(THREADS, RQ, 1),
    *(_ahead(THREADS, DRAMATIQ, at_a_time) for at_a_time in (8, 100)),
    *(_ahead(ASYNCIO, SAQ, at_a_time) for at_a_time in (8, 100)),
    *(_ahead(ASYNCIO, ARQ, at_a_time) for at_a_time in (8, 100)),
    *(_ahead(ASYNCIO, BULLMQ, at_a_time) for at_a_time in (1, 8, 100)),
    _woken(2.5),
    _receives(ONE_WAITER, 2),
    _receives(MANY_WAITERS, 5),
    _no_slower_when_deep("send"),
    _no_slower_when_deep("receive"),
    _no_slower_when_deep("delete"),
]
