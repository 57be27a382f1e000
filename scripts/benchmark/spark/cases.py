"""The cases: each is measured once in each round."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .environment import GROUPS, Environment
from .processor_time import ProcessorTime

READ, WRITE, STREAM = "read", "write", "stream"
#: The durations that Spark reports for a batch, in ms.
DURATIONS = (
    "latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets", "triggerExecution",
)  # fmt: skip
#: Small batches take long; thirty of them are enough for a figure.
_MOST_BATCHES = 30


@dataclass
class Case:
    """
    Something that is measured.

    Attributes:
        name: the name in the report.
        messages: the number of messages in the queue before each run.
        run: runs it, and returns the number of its messages.
        received: the share of the messages in the queue that are received.
        has_groups: whether the messages in the queue have groups.
        is_plain: whether it is a plain loop, the measure of the cases after it.
        floor: the name of the case without Redis that shows Spark's own part.
        target: the ratio to the plain loop that it should reach.
        target_rate: the messages per second that it should reach.
        has_default_options: whether its longest command should be short.
        runs: the results.
    """

    name: str
    messages: int
    run: Callable[[], int]
    received: float = 0
    has_groups: bool = False
    is_plain: bool = False
    floor: str | None = None
    target: float | None = None
    target_rate: float | None = None
    has_default_options: bool = False
    runs: list[Run] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """The median of the messages per second."""
        return statistics.median(run.messages / run.seconds for run in self.runs)

    def median_us(self, part: Callable[[ProcessorTime], float]) -> float:
        """Return the median of a part of the processor time, in microseconds per message."""
        return statistics.median(1e6 * part(run.processor) / run.messages for run in self.runs)


@dataclass(frozen=True)
class Run:
    """
    The result of one run.

    Attributes:
        messages: the number of messages.
        seconds: the time.
        processor: the processor time of all processes.
        longest_command: the longest command of Redis in ms, and its name; None if none is slow.
        durations: the medians of Spark's own times of the batches of a stream, in ms.
    """

    messages: int
    seconds: float
    processor: ProcessorTime
    longest_command: tuple[float, str] | None
    durations: dict[str, float]


def make_cases(env: Environment) -> list[Case]:
    """Return all cases; each plain loop comes before the cases that are compared with it."""
    number = env.messages
    return [
        Case(
            "read, plain loop: ids, then HMGET of body and counters",
            number,
            env.plain_read,
            is_plain=True,
        ),
        Case(
            "read, Spark, all columns",
            number,
            env.spark_read,
            floor=f"{READ}, Spark without Redis",
            target=1.1,
            has_default_options=True,
        ),
        Case(
            "read, Spark, `columns=id,message`",
            number,
            lambda: env.spark_read(columns="id,message"),
        ),
        Case(f"{READ}, Spark without Redis", number, env.floor_read),
        Case(
            "read, plain loop, 10 % received", number, env.plain_read, received=0.1, is_plain=True
        ),
        Case(
            "read, Spark, 10 % received",
            number,
            env.spark_read,
            received=0.1,
            floor=f"{READ}, Spark without Redis",
            target=0.95,
        ),
        *_make_writes(env),
        *_make_streams(env),
        *_make_moves(env),
    ]


def _make_writes(env: Environment) -> list[Case]:
    floor = f"{WRITE}, Spark without Redis"
    return [
        Case("write, plain loop: send_messages(1000)", 0, env.plain_write, is_plain=True),
        Case(
            "write, Spark, at-least-once",
            0,
            lambda: env.spark_write("at-least-once"),
            floor=floor,
            target=1.0,
            has_default_options=True,
        ),
        Case(
            "write, Spark, exactly-once",
            0,
            lambda: env.spark_write("exactly-once"),
            floor=floor,
            target=0.95,
        ),
        Case(floor, 0, env.floor_write),
    ]


def _make_streams(env: Environment) -> list[Case]:
    cases = [
        Case(
            "stream, plain loop: receive_messages(1000) + delete_messages",
            env.messages,
            env.plain_drain,
            is_plain=True,
        )
    ]
    targets = {5_000: (None, 29_663.0), 20_000: (None, None), 100_000: (0.8, None)}
    for batch, (target, target_rate) in targets.items():
        number = min(env.messages, _MOST_BATCHES * batch)
        floor = f"{STREAM}, Spark without Redis, {batch:,} a batch"
        cases += [
            Case(
                f"stream, Spark, {batch:,} a batch",
                number,
                lambda batch=batch: env.spark_stream(batch),  # type: ignore[misc]
                floor=floor,
                target=target,
                target_rate=target_rate,
                has_default_options=batch == 100_000,  # noqa: PLR2004 - the default
            ),
            Case(
                floor,
                0,
                lambda batch=batch, number=number: env.floor_stream(batch, number),  # type: ignore[misc]
            ),
        ]
    largest = 500_000
    run = lambda: env.spark_stream(largest)  # noqa: E731 - as above
    return [*cases, Case(f"stream, Spark, {largest:,} a batch", env.messages, run)]


def _make_moves(env: Environment) -> list[Case]:
    name = f"{env.grouped:,} messages of {GROUPS:,} groups"
    plain = "receive_messages(1000, extend_groups=True), send_messages, delete_messages"
    return [
        Case(
            f"move {name}, plain loop: {plain}",
            env.grouped,
            env.plain_move,
            has_groups=True,
            is_plain=True,
        ),
        Case(f"move {name}, Spark, exactly-once", env.grouped, env.spark_move, has_groups=True),
    ]


def measure_once(env: Environment, case: Case) -> None:
    """Run a case, and keep its result."""
    env.fill(case.messages, case.received, has_groups=case.has_groups)
    if not case.is_plain:
        env.wake_workers()
    env.reset_slow_commands()
    env.progress = []
    before, begin = env.clock.read(), time.perf_counter()
    messages = case.run()
    seconds = time.perf_counter() - begin
    processor = env.clock.read() - before
    case.runs.append(
        Run(messages, seconds, processor, env.find_longest_command(), _durations(env.progress))
    )
    total_us = 1e6 * processor.total / messages
    print(f"{messages / seconds:>12,.0f}/s {total_us:>6.2f} us  {case.name}", file=sys.stderr)


def _durations(progress: list[dict[str, Any]]) -> dict[str, float]:
    return {
        name: statistics.median(each["durationMs"].get(name, 0) for each in progress)
        for name in DURATIONS
        if progress
    }


def warm_up(env: Environment) -> None:
    """Run the first, cold jobs of each kind."""
    env.fill(1000)
    env.spark_read()
    env.floor_read()
    env.spark_stream(1000)
    env.floor_stream(1000, 1000)
    env.floor_write()
    for delivery in ("at-least-once", "exactly-once"):
        env.spark_write(delivery)
