"""
The overview: what is wrong first, then the figures of all queues.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import add
from typing import ClassVar

from rsmq.web.access.principals import ALL_QUEUES
from rsmq.web.pages.charts import Chart, make_chart
from rsmq.web.pages.formats import plural, show_duration, show_name, show_number
from rsmq.web.pages.phrases import read_marks
from rsmq.web.pages.recent_changes import Entries, read_changes, say_changes, say_marks, say_who
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.pages.views.figures import (
    SPANS,
    Column,
    Figure,
    count_complete,
    counted,
    find_failure,
    history_query,
    spark_of,
)
from rsmq.web.pages.views.queues import QueueRow, make_rows, queue_columns
from rsmq.web.routes.alerts import AlertJson, AlertsJson, RecoveryJson, queue_of_alert
from rsmq.web.routes.history import NamespaceHistoryJson
from rsmq.web.routes.queue_list import QueuesJson
from rsmq.web.routes.task_figures import TasksJson
from rsmq.web.routes.workers import FailureJson, WorkerJson, WorkersJson
from rsmq.web.table import Scope

_LIMIT = 10
#: From so many seconds on it is said that messages wait, though nothing else is wrong.
_WAITING_SECONDS = 30
#: Numbers of queues that are older are shown with their age.
_OLD_SECONDS = 3
#: Where an alert is repaired: the page of its queue unless it is here.
_PAGES = {"webhook-stopped": "webhooks", "alerts-not-sent": "alerts"}


class AlertRow(AlertJson):
    """
    An alert with its callers, as far as the audit stream has them, and the last error of the worker
    that it names.
    """

    notes: list[str]
    failure: FailureJson | None
    may_silence: bool


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """
    All that is wrong, and the figures of all queues.

    Attributes:
        number: of queues.
        calm: what is said if nothing is wrong.
        recovered: the alerts that have ended.
        is_waiting: whether messages wait though nothing else is wrong.
        queues: those whose messages wait the longest.
    """

    pages: ClassVar[Mapping[str, str]] = _PAGES
    chart: Chart | None
    alerts: list[AlertRow]
    recovered: list[RecoveryJson]
    number: int
    calm: str
    is_waiting: bool
    queues: list[QueueRow]
    columns: list[Column]
    figures: list[Figure]


async def _show(call: PageCall) -> OverviewPage:
    """
    Return the values: fifteen commands, and three for each 150 queues of the namespace. The calls
    of tasks are read once a minute: a command for each 150 queues, and for each 50 tasks.
    """
    found, longest, workers = await asyncio.gather(
        call.read(AlertsJson),
        call.read(
            QueuesJson, sort="oldest", limit=2 * _LIMIT, activity=True, dead_letter_queues=False
        ),
        call.read(WorkersJson),
    )
    sees_all = call.may(Scope.STATS, ALL_QUEUES)
    history = await call.read(NamespaceHistoryJson, **history_query(SPANS[0])) if sees_all else None
    # Workers write once a minute.
    tasks = await call.read_lasting(TasksJson, span=SPANS[0].name)
    queues = [
        each
        for each in make_rows(longest["queues"])
        if each["activity"]["waiting_seconds"] is not None
        and not each["activity"]["has_reasons"]  # a dead-letter queue of workers
    ]
    return OverviewPage(
        await _draw_calls(call, tasks, history, workers["workers"]),
        await _with_changes(call, found["alerts"], workers["workers"]), found["recovered"],
        found["queues"],
        *_calm(workers["workers"], queues[0] if queues else None),
        queues[:_LIMIT], queue_columns(), _figures(history, workers["workers"], found),
    )  # fmt: skip


async def _draw_calls(
    call: PageCall,
    read: TasksJson,
    history: NamespaceHistoryJson | None,
    workers: list[WorkerJson],
) -> Chart | None:
    """Return the chart of the calls of workers, by the busiest queues; None without calls."""
    finished: dict[str, list[int]] = {}
    failed: list[int] = []
    tasks = read["tasks"]
    steps = count_complete(read) if tasks else 0
    for each in tasks:
        ended, wrong = each["calls_by_step"][:steps], each["failed_by_step"][:steps]
        failed = list(map(add, failed, wrong)) if failed else wrong
        well = [max(number - bad, 0) for number, bad in zip(ended, wrong, strict=True)]
        of_queue = finished.get(each["queue"])
        finished[each["queue"]] = list(map(add, of_queue, well)) if of_queue else well
    if not any(failed) and not any(map(any, finished.values())):
        return None
    names = sorted(finished, key=lambda name: -sum(finished[name]))
    others = [finished[name] for name in names[_BUSIEST:]]
    rest = [sum(values) for values in zip(*others, strict=True)]
    start_ms, step_ms = tasks[0]["start_ms"], tasks[0]["step"] * 1000
    begins = [start_ms + at * step_ms for at in range(len(failed))]
    # Workers store nothing of a minute without calls: it is 0 if no worker can have had one, or if
    # one has counted then; else a gap.
    idle = _idle_ms(history)
    is_known = [
        any(counts)
        or begin in idle
        or any(each["since_ms"] <= begin < each["seen_ms"] for each in workers)
        for begin, *counts in zip(begins, failed, *finished.values(), strict=True)
    ]

    def with_gaps(values: list[int]) -> list[int | None]:
        return [value if known else None for value, known in zip(values, is_known, strict=True)]

    chart = make_chart(
        "Calls of workers per minute, by queue (stacked)",
        [
            *((show_name(name), with_gaps(finished[name])) for name in names[:_BUSIEST]),
            *([("other queues", with_gaps(rest))] if rest else []),
            ("failed, of all", with_gaps(failed)),
        ],
        [f"{datetime.fromtimestamp(each / 1000, UTC):%H:%M}" for each in begins],
        is_stacked=True,
        marks=await read_marks(call, None, begins[0], begins[-1]),
    )
    *before, last = chart.lines
    return replace(chart, lines=(*before, replace(last, number=_FAILED)))


#: The queues that have an area of their own, and the number of the colour of failures.
_BUSIEST, _FAILED = 5, 7
#: Alerts of acts of users, or caused by another visibility timeout.
_FAILING = {"failing", "failing-worker"}
_BY_PEOPLE = {"paused", "purged", "received-again", "new-dead-letters", *_FAILING}


async def _with_changes(
    call: PageCall, alerts: list[AlertJson], workers: list[WorkerJson]
) -> list[AlertRow]:
    """
    Return the alerts, each with ``notes``: who has caused it, as far as the audit has it; with
    ``failure`` and ``may_silence``.
    """
    entries: Entries = ()
    if any(each["kind"] in _BY_PEOPLE for each in alerts):
        entries = await read_changes(call)
    now_ms = time.time() * 1000
    return [
        {
            **each, "notes": _notes(each, entries, now_ms), "failure": _failure(each, workers),
            "may_silence": _may_silence(call, each),
        }
        for each in alerts
    ]  # fmt: skip


def _failure(alert: AlertJson, workers: list[WorkerJson]) -> FailureJson | None:
    """Return the last error of failing tasks: of the worker that fails the most, or of any."""
    if alert["kind"] not in _FAILING or alert["queue"] is None:
        return None
    chosen = [each for each in workers if alert["worker"] in {None, each["name"]}]
    return find_failure(chosen, alert["queue"])


def _may_silence(call: PageCall, alert: AlertJson) -> bool:
    queue = queue_of_alert(alert["kind"], alert["subject"])
    return alert["level"] != "note" and call.may(Scope.MANAGE, queue)


def _notes(alert: AlertJson, entries: Entries, now_ms: float) -> list[str]:
    queue = alert["queue"]
    if not entries or alert["kind"] not in _BY_PEOPLE or queue is None:
        return []
    if alert["kind"] in _FAILING:
        return say_marks(entries, alert["since_ms"] or 0)
    if alert["kind"] in {"paused", "purged"}:
        who = say_who(entries, alert["kind"], queue, alert["since_ms"] or 0)
        return [who] if who else []
    return say_changes(entries, [queue, *alert["sources"]], now_ms)


def _calm(workers: list[WorkerJson], oldest: QueueRow | None) -> tuple[str, bool]:
    """Return what is said if nothing is wrong, and whether messages of the oldest queue wait."""
    alive = sum(each["is_alive"] for each in workers)
    of_workers = (
        "workers are alive"
        if alive == len(workers)
        else f"of {plural(len(workers), 'worker')} {show_number(alive)} are alive, and the others "
        "have no message in flight any more"
    )
    seconds = oldest["activity"]["waiting_seconds"] if oldest is not None else None
    if oldest is not None and seconds is not None and seconds >= _WAITING_SECONDS:
        waits = f"messages of {show_name(oldest['name'])} wait for {show_duration(seconds)}"
        return f"Nothing is known to be wrong, but {waits}; {of_workers}.", True
    return f"Nothing. Messages are received, {of_workers}, and no dead letter is new.", False


def _figures(
    history: NamespaceHistoryJson | None, workers: list[WorkerJson], found: AlertsJson
) -> list[Figure]:
    """Return the figures: those that a minute has recorded with its end."""
    alive = sum(each["is_alive"] for each in workers)
    of_workers = Figure(
        "workers", show_number(alive), f"of {len(workers)}", "warn" if alive < len(workers) else ""
    )
    if history is None:
        return [of_workers]
    at = _recorded_at(history)
    columns = (
        ("in flight", history["in_flight"], at), ("delayed", history["delayed"], at),
        ("sent", history["sent"], "/ min"), ("received", history["received"], "/ min"),
    )  # fmt: skip
    rest = [
        Figure(name, show_number(_last(column)), unit, spark=spark_of(column))
        for name, column, unit in columns
    ]
    age = found["age_seconds"]
    unit = f"{age:.0f} s ago" if age > _OLD_SECONDS else ""
    dead = found["dead_letters"]
    # The history of all queues has the dead letters among the visible messages.
    spark = () if dead else spark_of(history["visible"])
    now = Figure("visible", show_number(found["visible"]), unit, spark=spark)
    return [now, *rest, counted(dead, "dead letter", unit), of_workers]


def _recorded_at(history: NamespaceHistoryJson) -> str:
    """Return the end of the minute of which the figures are, as in "at 21:04"."""
    known = [at for at, value in enumerate(history["visible"]) if value is not None]
    if not known:
        return ""
    end_ms = history["start_ms"] + (known[-1] + 1) * history["step"] * 1000
    return f"at {datetime.fromtimestamp(end_ms / 1000, UTC):%H:%M}"


def _idle_ms(history: NamespaceHistoryJson | None) -> set[int]:
    """Return Unix ms of the begins of the minutes in which nothing was received."""
    if history is None:
        return set()
    start, step = history["start_ms"], history["step"] * 1000
    return {start + at * step for at, number in enumerate(history["received"]) if number == 0}


def _last(values: list[float | None]) -> float | None:
    return next((each for each in reversed(values) if each is not None), None)


PAGES = (PageEntry("/", "overview.html", Scope.STATS, _show, menu="Overview"),)
