"""
The list of queues.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from rsmq.web.pages.links import with_query
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.pages.views.figures import Column, sortable, spark_of
from rsmq.web.table import Scope

_LIMIT = 100
_DEFAULT = "-visible"


async def _show(call: PageCall) -> Mapping[str, Any]:
    """Return the values: five commands, and one for each 150 queues that are sorted."""
    query = call.query
    sort = query.get("sort", _DEFAULT)
    page = await call.read(
        "/queues",
        sort=sort,
        q=query.get("q") or None,
        cursor=query.get("cursor"),
        limit=_LIMIT,
        activity=True,
    )
    rest = {name: value for name, value in query.items() if name != "cursor"}
    return {
        "queues": make_rows(page["queues"]),
        "columns": _columns(query),
        "q": query.get("q", ""),
        "sort": sort,
        "next": page["cursor"] and with_query({**rest, "cursor": page["cursor"]}),
        "first": (with_query(rest) or "?") if "cursor" in query else None,
    }


def make_rows(queues: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return queues with what a row of a table shows beside their attributes."""
    rows = []
    for each in queues:
        activity = each["activity"] or _UNKNOWN
        spark = spark_of(_by_two(activity["visible_last_hour"]))
        rows.append({**each, "activity": activity, "spark": spark})
    return rows


_UNKNOWN: Mapping[str, Any] = {
    "waiting_seconds": None, "has_reasons": False, "dead_letters": None, "sent_per_second": None,
    "received_per_second": None, "visible_last_hour": [],
}  # fmt: skip


def _by_two(values: list[int | None]) -> list[int | None]:
    """Return half as many values: a small line has no room for more."""
    pairs = zip(values[::2], values[1::2], strict=False)
    return [max((each for each in pair if each is not None), default=None) for pair in pairs]


def queue_columns() -> list[Column]:
    """Return the columns of a table of queues."""
    return [
        Column("queue"),
        Column("visible", "number"),
        Column("waits", "number"),
        Column("hidden", "number"),
        Column("dead", "number"),
        Column("sent/s", "number wide"),
        Column("received/s", "number wide"),
        Column("visible, last hour", "wide"),
    ]


def _columns(query: Mapping[str, str]) -> list[Column]:
    """Return these columns, all but the last of which sort the table."""
    name, visible, waits, hidden, dead, sent, received, hour = queue_columns()
    # The first message of the queue that waits the longest is the oldest one.
    oldest = sortable(waits.title, waits.style, "oldest", query, _DEFAULT, falls=False)
    return [
        sortable(name.title, name.style, "name", query, _DEFAULT, falls=False),
        sortable(visible.title, visible.style, "visible", query, _DEFAULT),
        replace(oldest, order=oldest.order and _OPPOSITE[oldest.order]),
        sortable(hidden.title, hidden.style, "hidden", query, _DEFAULT),
        sortable(dead.title, dead.style, "dead_letters", query, _DEFAULT),
        sortable(sent.title, sent.style, "sent_per_second", query, _DEFAULT),
        sortable(received.title, received.style, "received_per_second", query, _DEFAULT),
        hour,
    ]


_OPPOSITE = {"ascending": "descending", "descending": "ascending"}

PAGES = (PageEntry("/queues", "queues.html", Scope.STATS, _show, menu="Queues"),)
