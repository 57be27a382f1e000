"""
The parts that several pages show: figures, columns of tables, charts of a history.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, TypeAlias

from rsmq.history.call_records import WRITE_SECONDS
from rsmq.web.pages.charts import Chart, Mark, make_chart, make_spark, without_end
from rsmq.web.pages.formats import show_number
from rsmq.web.pages.links import with_query
from rsmq.web.routes.history import NamespaceHistoryJson
from rsmq.web.routes.task_figures import TasksJson
from rsmq.web.routes.workers import FailureJson, WorkerJson

MINUTE, HOUR = 60, 3600


@dataclass(frozen=True, slots=True)
class Figure:
    """
    A figure at the head of a page.

    Attributes:
        level: ``bad`` or ``warn`` if it needs attention.
        spark: the pieces of its small line.
    """

    name: str
    value: str
    unit: str = ""
    level: str = ""
    spark: tuple[str, ...] = ()


def counted(number: int, noun: str, unit: str = "", level: str = "") -> Figure:
    """Return the figure of a number of things, named as in 1 cause and 2 causes."""
    return Figure(noun if number == 1 else f"{noun}s", show_number(number), unit, level)


@dataclass(frozen=True, slots=True)
class Column:
    """
    A column of a table.

    Attributes:
        url: sorts by it; None if that is not possible.
        order: ``ascending`` or ``descending`` if the table is sorted by it.
    """

    title: str
    style: str = ""
    url: str | None = None
    order: str | None = None


def sortable(
    title: str, style: str, sort: str, query: Mapping[str, str], default: str, *, falls: bool = True
) -> Column:
    """
    Return a column by which a table can be sorted.

    Args:
        sort: its name in the address.
        query: the fields of the address; those of pages are left out.
        default: the order without one in the address.
        falls: whether a first click sorts it in descending order.
    """
    now = query.get("sort", default)
    is_now = now.removeprefix("-") == sort
    is_descending = now.startswith("-")
    wanted = sort if is_now and is_descending else f"-{sort}"
    if not is_now:
        wanted = f"-{sort}" if falls else sort
    rest = {name: value for name, value in query.items() if name not in {"sort", "cursor"}}
    order = ("descending" if is_descending else "ascending") if is_now else None
    return Column(title, style, with_query({**rest, "sort": wanted}) or "?", order)


#: A tab for a state: its title, its address, and whether it is the current one.
StateTab: TypeAlias = tuple[str, str, bool]


def state_tabs(states: Iterable[StrEnum], current: str | None) -> list[StateTab]:
    """Return the tabs of a list by state, with one for all."""
    values = [None, *(each.value for each in states)]
    return [
        ((each or "all").capitalize(), with_query({"state": each}) or "?", each == current)
        for each in values
    ]


@dataclass(frozen=True, slots=True)
class Span:
    """The time that charts show: its length and its step in seconds."""

    name: str
    title: str
    seconds: int
    step: int


SPANS = (
    Span("1h", "1 h", HOUR, MINUTE),
    Span("24h", "24 h", 24 * HOUR, 15 * MINUTE),
    Span("7d", "7 d", 7 * 24 * HOUR, 2 * HOUR),
    Span("90d", "90 d", 90 * 24 * HOUR, 24 * HOUR),
)


def find_span(query: Mapping[str, str]) -> Span:
    """Return the span of an address; that of an hour by default."""
    return next((each for each in SPANS if each.name == query.get("span")), SPANS[0])


def history_query(span: Span) -> dict[str, Any]:
    """Return the fields of a read of a history: the begin is a step, so pages share the answer."""
    now = datetime.now(UTC).timestamp()
    begin = (now - span.seconds) // span.step * span.step
    return {"from": datetime.fromtimestamp(begin, UTC).isoformat(), "step": span.step}


def spark_of_sums(values: Sequence[float | None], span: Span) -> tuple[str, ...]:
    """Return the small line of what was counted in each step, without a step that is not over."""
    # The current minute is not recorded before it is over.
    return spark_of(values if span.step == MINUTE else without_end(values))


def find_failure(
    workers: Iterable[WorkerJson], queue: str, since_ms: int = 0
) -> FailureJson | None:
    """Return the last failure of handlers of a queue, not before a time; None without one."""
    found = (each["failures"][queue] for each in workers if queue in each["failures"])
    later = (each for each in found if each["at_ms"] >= since_ms)
    return max(later, key=lambda each: each["at_ms"], default=None)


def count_complete(tasks: TasksJson) -> int:
    """Return of how many steps all calls are written: neither of the last nor of a new one."""
    task = tasks["tasks"][0]
    steps = len(task["calls_by_step"]) - 1
    end_ms = task["start_ms"] + steps * task["step"] * 1000
    return steps if tasks["read_ms"] >= end_ms + WRITE_SECONDS * 1000 else steps - 1


def make_charts(
    history: NamespaceHistoryJson, span: Span, marks: Sequence[Mark] = ()
) -> list[Chart]:
    """Return the charts of a history: sent and received, messages, the longest wait."""
    times = _times_of(history, span)
    unit = {MINUTE: "minute", HOUR: "hour", 24 * HOUR: "day"}.get(span.step)
    each = unit or (f"{span.step // HOUR} h" if span.step > HOUR else f"{span.step // MINUTE} min")
    return [
        make_chart(
            f"Messages per {each}",
            [("sent", history["sent"]), ("received", history["received"])],
            times,
            has_open_end=span.step > MINUTE,
            marks=marks,
        ),
        make_chart(
            "Messages in the queue (stacked)",
            [
                ("visible", history["visible"]),
                ("in flight", history["in_flight"]),
                ("delayed", history["delayed"]),
            ],
            times,
            is_stacked=True,
            marks=marks,
        ),
        make_chart(
            "Longest wait, in seconds", [("wait", history["oldest_seconds"])], times, marks=marks
        ),
    ]


def _times_of(history: NamespaceHistoryJson, span: Span) -> Sequence[str]:
    begin = datetime.fromtimestamp(history["start_ms"] / 1000, UTC)
    form = "%H:%M" if span.seconds <= 24 * HOUR else "%m-%d %H:%M"
    form = "%m-%d" if span.step >= 24 * HOUR else form
    steps = range(len(history["sent"]))
    return [f"{begin + timedelta(seconds=at * span.step):{form}}" for at in steps]


def spark_of(values: Sequence[float | None] | None) -> tuple[str, ...]:
    """Return the small line of a series; nothing if no value is known."""
    return make_spark(values) if values and any(each is not None for each in values) else ()
