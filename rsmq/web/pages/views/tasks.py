"""
The tasks, each with how its calls went.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rsmq.explain.alerts.failures import compare_failures
from rsmq.web.pages.links import with_query
from rsmq.web.pages.recent_changes import read_marks
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.pages.views.figures import MINUTE, SPANS, Column, find_span, sortable, spark_of
from rsmq.web.table import Scope

_DEFAULT = "-calls"
#: The values by which each column sorts the table.
_KEYS = {
    "task": lambda each: (each["task"], each["queue"]),
    "calls": lambda each: each["calls"],
    "failed": lambda each: each["failed"],
    "retried": lambda each: each["retried"],
    "dead": lambda each: each["dead_letters"],
    "running": lambda each: each["running"],
    "wait": lambda each: _of(each["wait"]),
    "duration": lambda each: _of(each["duration"]),
}


def _of(percentiles: Mapping[str, float] | None) -> float:
    return percentiles["p95"] if percentiles else -1.0


async def _show(call: PageCall) -> Mapping[str, Any]:
    """Return the values: a command for each 150 queues and 50 tasks, at most once a minute."""
    query, span = call.query, find_span(call.query)
    queue, part = query.get("queue") or None, query.get("q", "").lower()
    tasks = (await call.read_lasting("/tasks", queue=queue, span=span.name))["tasks"]
    rows = [each for each in tasks if part in each["task"].lower()]
    sort = query.get("sort", _DEFAULT)
    key = _KEYS.get(sort.removeprefix("-"), _KEYS["calls"])
    rows.sort(key=key, reverse=sort.startswith("-"))
    start_ms = min((each["start_ms"] for each in tasks), default=0)
    return {
        "tasks": [
            {
                **each,
                "spark": spark_of(each["calls_by_step"]),
                "compared": compare_failures(each["calls_by_step"], each["failed_by_step"])
                if span.step == MINUTE
                else None,
            }
            for each in rows
        ],
        "marks": await read_marks(call, queue, start_ms, time.time() * 1000) if tasks else [],
        "columns": _columns(query),
        "spans": [(each, with_query({**query, "span": each.name})) for each in SPANS],
        "span": span,
        "q": query.get("q", ""),
        "queue": queue,
    }


def _columns(query: Mapping[str, str]) -> list[Column]:
    def column(title: str, sort: str, style: str = "number", *, falls: bool = True) -> Column:
        return sortable(title, style, sort, query, _DEFAULT, falls=falls)

    return [
        column("task, queue", "task", "", falls=False),
        Column("calls/min", "number"),
        column("calls", "calls"),
        column("failed", "failed"),
        column("retried", "retried", "number wide"),
        column("dead", "dead"),
        column("running", "running"),
        column("waits p50 · p95 · p99", "wait"),
        column("takes p50 · p95 · p99", "duration"),
        Column("calls", "wide"),
    ]


PAGES = (PageEntry("/tasks", "tasks.html", Scope.STATS, _show, menu="Tasks"),)
