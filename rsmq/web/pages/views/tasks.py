"""
The tasks, each with how its calls went.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rsmq.explain.alerts.failures import ComparedFailures, compare_failures
from rsmq.web.pages.charts import Mark
from rsmq.web.pages.links import with_query
from rsmq.web.pages.phrases import read_marks
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.pages.views.figures import (
    MINUTE,
    SPANS,
    Column,
    Span,
    count_complete,
    find_failure,
    find_span,
    sortable,
    spark_of,
)
from rsmq.web.routes.task_figures import PercentilesJson, TaskJson, TasksJson
from rsmq.web.routes.workers import FailureJson, WorkerJson, WorkersJson
from rsmq.web.table import Scope

_DEFAULT = "-calls"
#: Rows of the page: a thousand take a seventh of a second.
_LIMIT = 200
#: The values by which each column sorts the table.
_KEYS: Mapping[str, Callable[[TaskJson], Any]] = {
    "task": lambda each: (each["task"], each["queue"]),
    "calls": lambda each: each["calls"],
    "failed": lambda each: each["failed"],
    "retried": lambda each: each["retried"],
    "dead": lambda each: each["dead_letters"],
    "running": lambda each: each["running"],
    "wait": lambda each: _of(each["wait"]),
    "duration": lambda each: _of(each["duration"]),
}


def _of(percentiles: PercentilesJson | None) -> float:
    return percentiles["p95"] if percentiles else -1.0


class TaskRow(TaskJson):
    """A task with its small line, its failures now and before, and the last one of its queue."""

    spark: tuple[str, ...]
    compared: ComparedFailures | None
    failure: FailureJson | None


@dataclass(frozen=True, slots=True)
class TasksPage:
    """The first tasks, how many more there are, and the addresses of other spans."""

    tasks: list[TaskRow]
    more: int
    marks: list[Mark]
    columns: list[Column]
    spans: list[tuple[Span, str]]
    span: Span
    q: str
    queue: str | None


async def _show(call: PageCall) -> TasksPage:
    """
    Return the values: a command for each 150 queues and 50 tasks, at most once a minute, and those
    of the workers.
    """
    query, span = call.query, find_span(call.query)
    queue, part = query.get("queue") or None, query.get("q", "").lower()
    read = await call.read_lasting(TasksJson, queue=queue, span=span.name)
    tasks = read["tasks"]
    rows = [each for each in tasks if part in each["task"].lower()]
    sort = query.get("sort", _DEFAULT)
    key = _KEYS.get(sort.removeprefix("-"), _KEYS["calls"])
    rows.sort(key=key, reverse=sort.startswith("-"))
    start_ms = min((each["start_ms"] for each in tasks), default=0)
    marks = await read_marks(call, queue, start_ms, time.time() * 1000) if tasks else []
    workers = (await call.read(WorkersJson))["workers"] if any(map(_failed, rows)) else []
    shown = [_row_of(each, span, count_complete(read), workers) for each in rows[:_LIMIT]]
    more = max(len(rows) - _LIMIT, 0)
    spans = [(each, with_query({**query, "span": each.name})) for each in SPANS]
    return TasksPage(shown, more, marks, _columns(query), spans, span, query.get("q", ""), queue)


def _failed(task: TaskJson) -> bool:
    return task["failed"] > 0


def _row_of(task: TaskJson, span: Span, steps: int, workers: list[WorkerJson]) -> TaskRow:
    calls, compared = task["calls_by_step"], None
    if span.step == MINUTE:
        compared = compare_failures(calls, task["failed_by_step"])
    failure = find_failure(workers, task["queue"], task["start_ms"]) if _failed(task) else None
    return {**task, "spark": spark_of(calls[:steps]), "compared": compared, "failure": failure}


def _columns(query: Mapping[str, str]) -> list[Column]:
    def column(title: str, sort: str, style: str = "number", *, falls: bool = True) -> Column:
        return sortable(title, style, sort, query, _DEFAULT, falls=falls)

    return [
        column("task, queue", "task", "", falls=False),
        column("failed", "failed"),
        Column("calls/min", "number"),
        column("calls", "calls"),
        column("retried", "retried", "number wide"),
        column("dead", "dead"),
        column("running", "running"),
        column("waits p50 · p95 · p99", "wait"),
        column("takes p50 · p95 · p99", "duration"),
        Column("calls", "wide"),
    ]


PAGES = (PageEntry("/tasks", "tasks.html", Scope.STATS, _show, menu="Tasks"),)
