"""
The overview: what is wrong first, then the figures of all queues.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from rsmq.web.access.principals import ALL_QUEUES
from rsmq.web.pages.formats import show_number
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.pages.views.figures import SPANS, Figure, history_query, spark_of
from rsmq.web.table import Scope

_LIMIT = 10


async def _show(call: PageCall) -> Mapping[str, Any]:
    longest, workers = await asyncio.gather(
        call.read("/queues", sort="oldest", limit=_LIMIT), call.read("/workers")
    )
    sees_all = call.may(Scope.STATS, ALL_QUEUES)
    history = await call.read("/history", **history_query(SPANS[0])) if sees_all else None
    return {
        "queues": longest["queues"],
        "figures": _figures(history, workers["workers"]),
    }


def _figures(history: Mapping[str, Any] | None, workers: list[Any]) -> list[Figure]:
    alive = sum(each["is_alive"] for each in workers)
    of_workers = Figure(
        "workers", show_number(alive), f"of {len(workers)}", "warn" if alive < len(workers) else ""
    )
    if history is None:
        return [of_workers]
    names = (("visible", "visible"), ("in flight", "in_flight"), ("sent", "sent"))
    rest = [
        Figure(name, show_number(_last(history[key])), spark=spark_of(history[key]))
        for name, key in (*names, ("received", "received"))
    ]
    return [*rest, of_workers]


def _last(values: list[float | None]) -> float | None:
    return next((each for each in reversed(values) if each is not None), None)


PAGES = (PageEntry("/", "overview.html", Scope.STATS, _show, menu="Overview"),)
