"""
Activity: what can be undone, the operations of many messages, and who has done what.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rsmq.web.access.principals import EVERYONE
from rsmq.web.pages.formats import plural
from rsmq.web.pages.links import with_query
from rsmq.web.pages.phrases import PHRASES, words_of
from rsmq.web.pages.recent_changes import changes_of
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.routes.audit import AuditJson
from rsmq.web.routes.bulk import OperationJson, OperationsJson
from rsmq.web.routes.undo import DeletionsJson, ListedDeletionJson
from rsmq.web.table import Scope

#: Entries of the audit stream on a page, and operations that have ended.
_ENTRIES, _ENDED = 200, 10
#: A call without an end is over after so many seconds.
_RUNNING_SECONDS = 60
_FILTERS = ("user", "queue", "call")
_UNFINISHED = {"waiting", "running", "paused"}
_LEVELS = {
    "waiting": "plain", "running": "good", "paused": "warn", "succeeded": "good", "failed": "bad",
    "cancelled": "plain",
}  # fmt: skip


#: Outcomes of operations.
_ENDS = {each: (each, _LEVELS[each], "") for each in ("succeeded", "failed", "cancelled")}


@dataclass(frozen=True, slots=True)
class CallRow:
    """
    A call of the audit stream: its begin and its end.

    Attributes:
        words: what it did, as ``words_of`` returns it.
        changes: the attributes' values before and after, and how many messages, as texts.
        outcome: what became of it.
        code: that of its error; empty without one.
    """

    at_ms: float
    user: str
    address: str
    words: list[tuple[str, str]]
    changes: list[str]
    outcome: str
    level: str
    code: str = ""


#: The calls by which the audit stream can be filtered, with their words.
_CALLS = sorted(
    ((call, re.sub(r"\{\w+\}", "\u2026", words)) for call, words in PHRASES.items()),
    key=lambda each: each[1],
)


@dataclass(frozen=True, slots=True)
class ActivityPage:
    """
    Deletions, operations, and calls.

    Attributes:
        off: why nothing can be undone now.
        operations: each with its level, and how many of its messages can be undone.
        rows: the calls of the audit stream.
        knows_who: whether their callers are known.
        older: the address of the calls before these.
        newest: the address of the last ones, if these are others.
        query: the filters.
    """

    calls: ClassVar[Sequence[tuple[str, str]]] = _CALLS
    deletions: list[ListedDeletionJson]
    off: str | None
    operations: list[tuple[str, OperationJson, int | None]]
    sees_audit: bool
    rows: list[CallRow]
    knows_who: bool
    older: str | None
    newest: str | None
    query: Mapping[str, str]


async def _show(call: PageCall) -> ActivityPage:
    query = {name: call.query.get(name, "").strip() for name in _FILTERS}
    sees_audit = call.may(Scope.AUDIT, None)
    undo, listed, audit = await asyncio.gather(
        call.read(DeletionsJson),
        call.read(OperationsJson),
        _read_audit(call, query) if sees_audit else _nothing(),
    )
    operations = listed["operations"]
    running = [each for each in operations if each["state"] in _UNFINISHED]
    ended = [each for each in operations if each["state"] not in _UNFINISHED]
    seen = set(filter(None, call.query.get("ended", "").split(",")))
    rows, ended_before = _pair(audit["entries"], seen)
    older = audit["before"] and with_query(
        {**query, "before": audit["before"], "ended": ",".join(ended_before)}
    )
    shown = [
        (_LEVELS[each["state"]], each, _undoable(each, undo["deletions"]))
        for each in [*running, *ended[:_ENDED]]
    ]
    return ActivityPage(
        undo["deletions"], undo["off"], shown, sees_audit, rows, older=older, query=query,
        knows_who=all(each.user != EVERYONE.name for each in rows),
        newest=(with_query(query) or "?") if "before" in call.query else None,
    )  # fmt: skip


def _undoable(operation: OperationJson, deletions: list[ListedDeletionJson]) -> int | None:
    """Return how many messages of an operation can be undone; None if that was not asked for."""
    undo = operation["arguments"].get("undo")
    if undo is None:
        return None
    # Of an operation that takes longer than a minute, each minute has a deletion: ID, ID-1, ID-2.
    return sum(
        int(each["messages"])
        for each in deletions
        if each["id"].partition("-")[0] == undo and each["state"] != "undone"
    )


async def _read_audit(call: PageCall, query: Mapping[str, str]) -> AuditJson:
    chosen = {name: value or None for name, value in query.items()}
    return await call.read(AuditJson, limit=_ENTRIES, before=call.query.get("before"), **chosen)


async def _nothing() -> AuditJson:
    return {"entries": [], "before": None}


def _pair(entries: list[dict[str, str]], ended: set[str]) -> tuple[list[CallRow], list[str]]:
    """
    Return a row for each call.

    Args:
        entries: the latest first.
        ended: the begins whose ends are on the pages before.

    Returns:
        The rows, and the begins whose ends are here, and that are further back.
    """
    rows = []
    open_begins = set(ended)
    for entry in entries:
        if entry.get("phase") == "begin":
            if entry["id"] not in open_begins:
                rows.append(_row_of(entry))
            open_begins.discard(entry["id"])
        else:
            rows.append(_row_of(entry))
            if entry.get("begin"):
                open_begins.add(entry["begin"])
    return rows, sorted(open_begins)


def _row_of(entry: Mapping[str, str]) -> CallRow:
    at_ms = float(entry["id"].partition("-")[0])
    return CallRow(
        at_ms,
        entry.get("user", ""),
        entry.get("address", ""),
        words_of(entry),
        [*changes_of(entry), *_count_of(entry)],
        *_outcome_of(entry, at_ms),
    )


def _count_of(entry: Mapping[str, str]) -> list[str]:
    """Return how many messages a call has changed that did not name them."""
    done = entry.get("done", "")
    return [plural(int(done), "message")] if done.isdecimal() else []


def _outcome_of(entry: Mapping[str, str], at_ms: float) -> tuple[str, str, str]:
    if entry.get("phase") == "begin":
        is_running = time.time() - at_ms / 1000 < _RUNNING_SECONDS
        return ("running", "plain", "") if is_running else ("did not end", "bad", "")
    outcome = entry.get("outcome", "")
    if outcome.isdigit() and outcome.startswith("2"):
        return "done", "good", ""
    return _ENDS.get(outcome, ("failed", "warn", outcome))


PAGES = (PageEntry("/activity", "activity.html", Scope.STATS, _show, menu="Activity"),)
