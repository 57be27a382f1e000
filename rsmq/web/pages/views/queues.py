"""
The list of queues.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from rsmq.web.pages.links import with_query
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.pages.views.figures import Column, sortable, spark_of
from rsmq.web.routes.forms import QueueJson
from rsmq.web.routes.queue_list import ActivityJson, ListedQueueJson, QueuesJson
from rsmq.web.table import Scope

_LIMIT = 100
_DEFAULT = "-visible"


class QueueRow(QueueJson):
    """A queue with what a row of a table shows beside its attributes."""

    activity: ActivityJson
    spark: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QueuesPage:
    """A part of the list of queues, and the addresses of the first and the next one."""

    queues: list[QueueRow]
    columns: list[Column]
    q: str
    sort: str
    next: str | None
    first: str | None


async def _show(call: PageCall) -> QueuesPage:
    """Return the values: five commands, and one for each 150 queues that are sorted."""
    query = call.query
    sort = query.get("sort", _DEFAULT)
    page = await call.read(
        QueuesJson,
        sort=sort,
        q=query.get("q") or None,
        cursor=query.get("cursor"),
        limit=_LIMIT,
        activity=True,
    )
    rest = {name: value for name, value in query.items() if name != "cursor"}
    return QueuesPage(
        make_rows(page["queues"]), _columns(query), query.get("q", ""), sort,
        next=page["cursor"] and with_query({**rest, "cursor": page["cursor"]}),
        first=(with_query(rest) or "?") if "cursor" in query else None,
    )  # fmt: skip


def make_rows(queues: Iterable[ListedQueueJson]) -> list[QueueRow]:
    """Return the rows of queues that were read with their activity."""
    rows: list[QueueRow] = []
    for each in queues:
        activity = each["activity"] or _UNKNOWN
        spark = spark_of(_by_two(activity["visible_last_hour"]))
        rows.append({**each, "activity": activity, "spark": spark})
    return rows


_UNKNOWN: ActivityJson = {
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
