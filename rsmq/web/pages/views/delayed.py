"""
Messages that wait for a time: delayed and retrying messages, and schedules.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rsmq.errors import QueueNotFound
from rsmq.explain.observed import LATE_SECONDS, MISSING_QUEUE
from rsmq.vocabulary.sends import SCHEDULE, ValueKind
from rsmq.web.pages.formats import show_duration, show_number
from rsmq.web.pages.recent_changes import find_deletion
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.pages.views.figures import Figure, counted
from rsmq.web.routes.delayed import DelayedJson, HiddenQueueJson, NextMessageJson
from rsmq.web.routes.forms import QueueJson
from rsmq.web.table import Scope

_LIMIT = 25


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """
    A schedule as the pages show it; times are Unix ms.

    Attributes:
        when: its expression or its interval.
        state: ``active``, ``paused``, ``late``, ``failing`` or ``unreadable``.
        level: how urgent that is.
    """

    name: str
    queue: str | None
    when: str
    state: str
    level: str
    next_ms: float | None
    last_ms: float | None
    failure: str | None


@dataclass(frozen=True, slots=True)
class DelayedPage:
    """The messages that wait, by queue and in their order, and the schedules."""

    queues: list[HiddenQueueJson]
    messages: list[NextMessageJson]
    others: int
    schedules: list[ScheduleRow]
    is_late: bool
    figures: list[Figure]


async def _show(call: PageCall) -> DelayedPage:
    """Show the list: one command for each 150 queues, and at most seven more."""
    waiting, listed = await asyncio.gather(
        call.read(DelayedJson, limit=_LIMIT), call.read("/schedules")
    )
    queues = waiting["queues"]
    schedules = [_row_of(each) for each in listed["schedules"]]
    return DelayedPage(
        [each for each in queues if each["delayed"] or each["retrying"] or each["held_back"]],
        waiting["messages"], waiting["others"], schedules,
        is_late=any(each.state == "late" for each in schedules),
        figures=_figures(queues, waiting["messages"], schedules),
    )  # fmt: skip


def _figures(
    queues: list[HiddenQueueJson], messages: list[NextMessageJson], schedules: list[ScheduleRow]
) -> list[Figure]:
    about = "\u2248 " if any(each["margin"] for each in queues) else ""
    first = messages[0]["visible_at_ms"] / 1000 - time.time() if messages else None
    due = [each.next_ms for each in schedules if each.next_ms is not None]
    tick = min(due) / 1000 - time.time() if due else None
    bad = sum(each.level == "bad" for each in schedules)
    return [
        Figure("delayed", about + show_number(sum(each["delayed"] for each in queues))),
        Figure("retrying", about + show_number(sum(each["retrying"] for each in queues))),
        Figure("next message", show_duration(first and max(first, 0))),
        Figure("next tick", show_duration(tick and max(tick, 0))),
        counted(
            len(schedules), "schedule", f"{bad} late or failing" if bad else "",
            "bad" if bad else "",
        ),
    ]  # fmt: skip


def _ms(text: str | None) -> float | None:
    return None if text is None else datetime.fromisoformat(text).timestamp() * 1000


def _row_of(schedule: Mapping[str, Any]) -> ScheduleRow:
    state, level = _state_of(schedule)
    return ScheduleRow(
        schedule["name"],
        schedule["queue"],
        _when(schedule),
        state,
        level,
        _ms(schedule["next_tick_at"]),
        _ms(schedule["last_tick_at"]),
        schedule["failure"],
    )


def _state_of(schedule: Mapping[str, Any]) -> tuple[str, str]:
    due = _ms(schedule["next_attempt_at"])
    if schedule["queue"] is None:
        return "unreadable", "bad"
    if schedule["paused_at"] is not None:
        return "paused", "warn"
    if schedule["failure"] is not None:
        return "failing", "bad"
    if due is not None and time.time() - due / 1000 > LATE_SECONDS:
        return "late", "bad"
    return "active", "good"


def _when(schedule: Mapping[str, Any]) -> str:
    if schedule["cron"] is not None:
        zone = schedule["timezone"]
        return f"{schedule['cron']}{'' if zone in {None, 'UTC'} else f' {zone}'}"
    return "" if schedule["every"] is None else f"every {show_duration(schedule['every'])}"


@dataclass(frozen=True, slots=True)
class SchedulePage:
    """
    A schedule.

    Attributes:
        facts: titles and values of its settings.
        remedy: the deletion of its queue; an empty record if there is none, and None if the queue
            exists.
        is_found: whether it failed because its queue did not exist, which exists now.
        again_ms: when it is tried again.
    """

    schedule: Mapping[str, Any]
    row: ScheduleRow
    facts: list[tuple[str, str]]
    body: str | None
    is_binary: bool
    upcoming: list[float]
    sent_ms: float | None
    failed_ms: float | None
    remedy: Mapping[str, Any] | None
    is_found: bool
    again_ms: float | None


async def _show_one(call: PageCall) -> SchedulePage:
    schedule = await call.read("/schedules/{schedule}", call.names)
    facts = [
        ("missed times", _MISSED.get(schedule["missed"], "")),
        ("jitter", show_duration(schedule["jitter"]) if schedule["jitter"] else "none"),
        ("time in the body", schedule["tick_field"] or "no"),
        *_facts_of_messages(schedule),
        ("defined by", _SOURCES.get(schedule["source"], "")),
        ("version", str(schedule["version"])),
    ]
    body, failure = schedule.get("body"), schedule["failure"]
    remedy = await _find_remedy(call, schedule) if failure else None
    now_ms = time.time() * 1000
    return SchedulePage(
        schedule, _row_of(schedule), facts, body,
        is_binary=body is None and schedule.get("body_base64") is not None,
        upcoming=[ms for each in schedule["upcoming"] if (ms := _ms(each)) and ms > now_ms],
        sent_ms=_ms(schedule["last_sent_at"]),
        failed_ms=_ms(schedule["failed_at"]), remedy=remedy,
        is_found=remedy is None and (failure or "").startswith(MISSING_QUEUE),
        again_ms=_ms(schedule["next_attempt_at"]),
    )  # fmt: skip


async def _find_remedy(call: PageCall, schedule: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the deletion of its queue, or an empty record if there is none; None if it exists."""
    queue = schedule["queue"]
    if queue is None:
        return None
    try:
        await call.read(QueueJson, {"queue": queue})
    except QueueNotFound:
        return await find_deletion(call, queue) or {}
    return None


def _facts_of_messages(schedule: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the options of its messages, those that it has."""
    for name, option in SCHEDULE.options.items():
        value = schedule[name]
        if value is None:
            continue
        text = show_duration(value) if option.kind is ValueKind.SECONDS else str(value)
        title, before = _WORDS.get(name, (name.replace("_", " "), ""))
        yield title, before + text


#: Options with a title of their own, and what comes before their values.
_WORDS = {
    "unique_key": ("only one message at a time", "with the unique key "),
    "expires": ("a message expires", "after "),
    "max_retries": ("retries of a message", ""),
}


_MISSED = {
    "skip": "no message",
    "once": "one message for all of them",
    "all": "a message for each",
}
_SOURCES = {"code": "a worker's code", "call": "a call"}

PAGES = (
    PageEntry("/delayed", "delayed.html", Scope.STATS, _show, menu="Delayed"),
    PageEntry("/schedules/{schedule}", "schedule.html", Scope.STATS, _show_one, below="/delayed"),
)
