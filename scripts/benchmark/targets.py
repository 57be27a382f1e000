"""The targets, and whether a run reached them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from scripts.benchmark.cases import ASYNCIO as ASYNCIO_1
from scripts.benchmark.cases import (
    ASYNCIO_100,
    BATCHES,
    LARGE,
    LIMIT,
    NODE,
    NODE_100,
    OURS,
    PIPELINES,
    PROVIDED_CLIENT,
    PYRSMQ,
    SMALL,
    Action,
)
from scripts.benchmark.pushes import WEBHOOK
from scripts.benchmark.throughput import rate
from scripts.benchmark.wakeup import BLPOP, MANY_WAITERS, ONE_WAITER
from scripts.benchmark.worker_cases import (
    ARQ,
    ASYNCIO,
    BULLMQ,
    DRAMATIQ,
    LOOP,
    LOOP_CONCURRENCY,
    LOOP_STEP,
    RQ,
    SAQ,
    THREADS,
)
from scripts.benchmark.workers import job_rate

BATCHES_100, BATCHES_1000 = BATCHES.format(100), BATCHES.format(1000)
SINGLE: dict[Action, str] = {"send": "sends", "receive": "receives and deletes"}
MANY: dict[Action, str] = {
    "send": "send_messages",
    "receive": "receive_messages + delete_messages",
}
SHALLOW, DEEP = 10_000, 1_000_000

Results = dict[str, Any]


@dataclass(frozen=True)
class Target:
    """
    A line of the table.

    Attributes:
        case: the measured case, and the case beside it.
        sign: the side of ``bound`` on which the figure must be.
        bound: the figure that must be reached.
        unit: the unit after the figure.
        reach: returns the figure from the results of a run; None if the run did not measure it.
    """

    case: str
    sign: Literal["≥", "≤"]
    bound: float
    unit: str
    reach: Callable[[Results], float | None]

    def compare(self, results: Results) -> dict[str, Any]:
        """Return the line for one run. The figure is compared as shown, with two decimals."""
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


def _throughput_target(
    case: str, bound: float, action: Action, ours: str, other: str, *, size: int = SMALL
) -> Target:
    def reach(results: Results) -> float:
        throughput = results["throughput"]
        return rate(throughput, action, ours, size) / rate(throughput, action, other, size)

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


def _depth_target(call: str) -> Target:
    def reach(results: Results) -> float | None:
        deep, shallow = _call_us(results, call, DEEP), _call_us(results, call, SHALLOW)
        return deep / shallow if deep and shallow else None

    return Target(
        f"{call}_message at 1,000,000 waiting messages, against 10,000", "≤", 1.5, "x", reach
    )


def _wake_up_target(bound: float) -> Target:
    def reach(results: Results) -> float:
        return results["wake_up"][ONE_WAITER]["p50_ms"] / results["wake_up"][BLPOP]["p50_ms"]

    return Target("wake-up by a Node send, p50, against BLPOP by LPUSH", "≤", bound, "x", reach)


def _loop_target(ours: str) -> Target:
    def reach(results: Results) -> float:
        workers = results["workers"]
        return job_rate(workers, ours, LOOP_CONCURRENCY) / job_rate(workers, LOOP, LOOP_STEP)

    return Target(
        f"worker, {_kind(ours)}, {LOOP_CONCURRENCY} at a time, against "
        f"receive_messages + delete_messages, {LOOP_STEP} a call",
        "≥",
        0.65,
        "x",
        reach,
    )


def _handler_target(ours: str, sleep_ms: int) -> Target:
    def reach(results: Results) -> float:
        jobs = job_rate(results["handler_times"], ours, LOOP_CONCURRENCY, sleep_ms)
        return jobs * sleep_ms / 1000 / LOOP_CONCURRENCY

    case = (
        f"worker, {_kind(ours)}, {LOOP_CONCURRENCY} at a time with handlers of {sleep_ms} ms, "
        "against handlers alone"
    )
    return Target(case, "≥", 0.97, "x", reach)


def _worker_target(ours: str, other: str, at_a_time: int) -> Target:
    def reach(results: Results) -> float:
        return min(
            job_rate(workers, ours, at_a_time) / job_rate(workers, other, at_a_time)
            for workers in (results["workers"], results["workers_on_all"])
        )

    case = f"worker, {_kind(ours)}, {at_a_time} at a time, against {other.partition(',')[0]}"
    return Target(case, "≥", 1, "x", reach)


def _kind(ours: str) -> str:
    return ours.partition(", ")[2]


def _push_target(bound: float) -> Target:
    def reach(results: Results) -> float | None:
        return results["pushes"]["ratio"] if "pushes" in results else None

    return Target(
        "webhook, 64 at a time, against a plain loop of its client", "≥", bound, "x", reach
    )


def _push_rate_target(bound: float) -> Target:
    def reach(results: Results) -> float | None:
        return results["pushes"]["rates"][WEBHOOK]["median"] if "pushes" in results else None

    return Target("webhook, 64 at a time, pushes a second", "≥", bound, "", reach)


def _receives_target(kind: str, bound: float) -> Target:
    def reach(results: Results) -> float:
        return results["wake_up"][kind]["receives_per_message"]

    return Target(f"receives a message, {_kind(kind)}", "≤", bound, "", reach)


TARGETS = [
    _throughput_target("send_message, against Node", 1.5, "send", OURS, NODE),
    _throughput_target("send_message, against PyRSMQ", 5, "send", OURS, PYRSMQ),
    _throughput_target(
        "receive_message + delete_message, against Node", 1.35, "receive", OURS, NODE
    ),
    _throughput_target(
        "receive_message + delete_message, against PyRSMQ", 4, "receive", OURS, PYRSMQ
    ),
    _throughput_target(
        "send_message on a redis.Redis, against Node", 1.15, "send", PROVIDED_CLIENT, NODE
    ),
    _throughput_target(
        "receive_message + delete_message on a redis.Redis, against Node",
        1.0,
        "receive",
        PROVIDED_CLIENT,
        NODE,
    ),
    _throughput_target(
        "send_messages, 100 a call, against Node's 100", 6, "send", BATCHES_100, NODE_100
    ),
    _throughput_target(
        "send_messages, 100 a call, against pipelines of 100", 4, "send", BATCHES_100, PIPELINES
    ),
    _throughput_target(
        "send_messages, 100 a call of 10 KB, against Node's 100",
        2.5,
        "send",
        BATCHES_100,
        NODE_100,
        size=LARGE,
    ),
    _throughput_target(
        "receive_messages + delete_messages, 100 a call, against Node's 100",
        5,
        "receive",
        BATCHES_100,
        NODE_100,
    ),
    _throughput_target("send_message, against redis-benchmark", 0.8, "send", OURS, LIMIT),
    *(
        _throughput_target(
            f"{name}, 1,000 a call of 10 KB, against 100 a call",
            1,
            action,
            BATCHES_1000,
            BATCHES_100,
            size=LARGE,
        )
        for action, name in MANY.items()
    ),
    *(
        _throughput_target(
            f"asyncio, {name}, 1 at a time{of_size}, against Node",
            1,
            action,
            ASYNCIO_1,
            NODE,
            size=size,
        )
        for of_size, size in (("", SMALL), (" with 10 KB", LARGE))
        for action, name in SINGLE.items()
    ),
    *(
        _throughput_target(
            f"asyncio, {SINGLE[action]}, 100 at a time{of_size}, against Node's 100",
            bound,
            action,
            ASYNCIO_100,
            NODE_100,
            size=size,
        )
        for action, of_size, size, bound in (
            ("send", "", SMALL, 2.5),
            ("receive", "", SMALL, 1.8),
            ("send", " with 10 KB", LARGE, 1.5),
            ("receive", " with 10 KB", LARGE, 1.5),
        )
    ),
    _loop_target(THREADS),
    _loop_target(ASYNCIO),
    _handler_target(THREADS, 5),
    _handler_target(ASYNCIO, 5),
    _worker_target(THREADS, RQ, 1),
    *(_worker_target(THREADS, DRAMATIQ, at_a_time) for at_a_time in (8, 100)),
    *(_worker_target(ASYNCIO, SAQ, at_a_time) for at_a_time in (8, 100)),
    *(_worker_target(ASYNCIO, ARQ, at_a_time) for at_a_time in (8, 100)),
    *(_worker_target(ASYNCIO, BULLMQ, at_a_time) for at_a_time in (1, 8, 100)),
    _push_rate_target(1000),
    _push_target(0.75),
    _wake_up_target(2.5),
    _receives_target(ONE_WAITER, 2),
    _receives_target(MANY_WAITERS, 5),
    _depth_target("send"),
    _depth_target("receive"),
    _depth_target("delete"),
]
