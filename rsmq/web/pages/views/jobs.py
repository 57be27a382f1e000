"""
The jobs of a queue: what has become of its tracked messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rsmq.jobs.status import JobState
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.pages.views.figures import StateTab, state_tabs
from rsmq.web.routes.jobs import JobJson, JobsJson
from rsmq.web.table import Scope

_LIMIT = 100


@dataclass(frozen=True, slots=True)
class JobsPage:
    """The jobs of a queue, those in a state or all."""

    limit: ClassVar[int] = _LIMIT
    queue: str
    jobs: list[JobJson]
    state: str | None
    tabs: list[StateTab]


async def _show(call: PageCall) -> JobsPage:
    """Return the page; without an index of jobs all keys are read, so it is not refreshed."""
    names, state = {"queue": call.names["queue"]}, call.query.get("state") or None
    found = await call.read(JobsJson, names, state=state, limit=_LIMIT)
    return JobsPage(names["queue"], found["jobs"], state, state_tabs(JobState, state))


PAGES = (
    PageEntry(
        "/queues/{queue}/jobs", "jobs.html", Scope.PEEK, _show, below="/queues", refreshes=False
    ),
)
