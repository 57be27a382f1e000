"""
The jobs of a queue: what has become of its tracked messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsmq.jobs.status import JobState
from rsmq.web.pages.links import with_query
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.table import Scope

_LIMIT = 100


async def _show(call: PageCall) -> Mapping[str, Any]:
    """Return the page; without an index of jobs all keys are read, so it is not refreshed."""
    names, state = {"queue": call.names["queue"]}, call.query.get("state") or None
    found = await call.read("/queues/{queue}/jobs", names, state=state, limit=_LIMIT)
    return {
        "queue": names["queue"],
        "jobs": found["jobs"],
        "limit": _LIMIT,
        "state": state,
        "tabs": [
            (name.capitalize(), with_query({"state": value}) or "?", value == state)
            for name, value in (("all", None), *((each.value, each.value) for each in JobState))
        ],
    }


PAGES = (
    PageEntry(
        "/queues/{queue}/jobs", "jobs.html", Scope.PEEK, _show, below="/queues", refreshes=False
    ),
)
