"""
The list of queues.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsmq.web.pages.links import with_query
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.pages.views.figures import Column, sortable
from rsmq.web.table import Scope

_LIMIT = 100
_DEFAULT = "-visible"


async def _show(call: PageCall) -> Mapping[str, Any]:
    query = call.query
    sort = query.get("sort", _DEFAULT)
    page = await call.read(
        "/queues",
        sort=sort,
        q=query.get("q") or None,
        cursor=query.get("cursor"),
        limit=_LIMIT,
    )
    rest = {name: value for name, value in query.items() if name != "cursor"}
    return {
        "queues": page["queues"],
        "columns": _columns(query),
        "q": query.get("q", ""),
        "sort": sort,
        "next": page["cursor"] and with_query({**rest, "cursor": page["cursor"]}),
        "first": (with_query(rest) or "?") if "cursor" in query else None,
    }


def _columns(query: Mapping[str, str]) -> list[Column]:
    def column(title: str, style: str, sort: str, *, falls: bool = True) -> Column:
        return sortable(title, style, sort, query, _DEFAULT, falls=falls)

    return [
        column("queue", "", "name", falls=False),
        column("visible", "number", "visible"),
        column("hidden", "number", "hidden"),
        column("messages", "number wide", "depth"),
        column("sent", "number wide", "sent"),
        column("received", "number wide", "received"),
        Column("dead letters to", "wide"),
    ]


PAGES = (PageEntry("/queues", "queues.html", Scope.STATS, _show, menu="Queues"),)
