"""The results as Markdown tables."""

from __future__ import annotations

from .cases import DURATIONS, Case
from .environment import BODY_BYTES, SLOW_MS
from .latency import RATE, Latency

PROCESSORS = 2
#: The targets of a query without messages, and of the longest command with the default options.
MOST_IDLE_COMMANDS = 4
MOST_COMMAND_MS = 20


def report(
    cases: list[Case], latencies: list[Latency], idle_commands: float, messages: int, rounds: int
) -> str:
    """Return the results."""
    parts = [
        _describe_method(messages, rounds),
        _table(
            ["", "messages/s", "against the plain loop", "best possible", "target"],
            _rate_rows(cases),
        ),
        _table(
            ["processor time, us a message", "JVM", "Python", "Redis", "all", "longest command"],
            [_processor_row(case) for case in cases],
        ),
        _table(
            ["Spark's times of a batch, ms", *DURATIONS],
            [_duration_row(case) for case in cases if case.runs[0].durations],
        ),
        _table(
            [f"latency at {RATE} messages/s, ms", "trigger", "p50", "p90", "p99"],
            [_latency_row(each) for each in latencies],
        ),
        _table(["", "measured", "target"], _limit_rows(cases, idle_commands)),
    ]
    return "\n\n".join(parts) + "\n"


def _describe_method(messages: int, rounds: int) -> str:
    extent = f"{messages:,} messages of {BODY_BYTES} B, medians of {rounds} rounds"
    return f"{extent}, `local[{PROCESSORS}]`."


def find_best_rate(case: Case, floor: Case) -> float:
    """
    Return the messages per second of a source or sink whose own work takes no time.

    Such a source still needs Redis's processor time and Spark's own part, the floor. They share the
    processors. Redis has one thread, and the floor's time can't become shorter.
    """
    redis_us = case.median_us(lambda time: time.redis)
    floor_us = floor.median_us(lambda time: time.total)
    return 1e6 / max(redis_us, 1e6 / floor.rate, (redis_us + floor_us) / PROCESSORS)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _rate_rows(cases: list[Case]) -> list[list[str]]:
    by_name = {case.name: case for case in cases}
    rows: list[list[str]] = []
    plain: Case | None = None  # as with --only
    for case in cases:
        ratio = best = target = ""
        if case.is_plain:
            plain = case
        elif plain is not None:
            ratio = f"{case.rate / plain.rate:.2f}x"
            if case.floor in by_name:
                best = f"{find_best_rate(case, by_name[case.floor]) / plain.rate:.2f}x"
            if case.target is not None:
                target = _judge(f"{case.target:g}x", is_met=case.rate / plain.rate >= case.target)
        if case.target_rate is not None:
            target = _judge(f"{case.target_rate:,.0f}/s", is_met=case.rate >= case.target_rate)
        rows.append([case.name, f"{case.rate:,.0f}", ratio, best, target])
    return rows


def _judge(target: str, *, is_met: bool) -> str:
    return f"{target}, {'met' if is_met else '**not met**'}"


def _processor_row(case: Case) -> list[str]:
    parts = [
        case.median_us(lambda time: time.jvm),
        case.median_us(lambda time: time.python),
        case.median_us(lambda time: time.redis),
        case.median_us(lambda time: time.total),
    ]
    return [case.name, *(f"{part:.2f}" for part in parts), _describe_longest([case])]


def _find_longest(cases: list[Case]) -> tuple[float, str] | None:
    return max((run.longest_command for case in cases for run in case.runs if run.longest_command),
               default=None)  # fmt: skip


def _describe_longest(cases: list[Case]) -> str:
    longest = _find_longest(cases)
    return f"under {SLOW_MS:g} ms" if longest is None else f"{longest[0]:.1f} ms, {longest[1]}"


def _duration_row(case: Case) -> list[str]:
    rounds = [run.durations for run in case.runs]
    return [
        case.name,
        *(f"{sorted(each[name] for each in rounds)[len(rounds) // 2]:.0f}" for name in DURATIONS),
    ]


def _latency_row(latency: Latency) -> list[str]:
    percentiles = (f"{latency.percentile(percent):.0f}" for percent in (50, 90, 99))
    return [latency.name, latency.trigger, *percentiles]


def _limit_rows(cases: list[Case], idle_commands: float) -> list[list[str]]:
    with_defaults = [case for case in cases if case.has_default_options]
    longest = _find_longest(with_defaults)
    is_short = longest is None or longest[0] <= MOST_COMMAND_MS
    return [
        [
            "idle query, Redis commands a second",
            f"{idle_commands:.1f}",
            _judge(f"at most {MOST_IDLE_COMMANDS}", is_met=idle_commands <= MOST_IDLE_COMMANDS),
        ],
        [
            "longest Redis command of a read, a write and a stream with the default options",
            _describe_longest(with_defaults),
            _judge(f"at most {MOST_COMMAND_MS} ms", is_met=is_short),
        ],
    ]
