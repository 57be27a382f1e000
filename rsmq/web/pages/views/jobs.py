"""
The jobs of a queue: what has become of its tracked messages.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

from rsmq.jobs.status import JobState
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.pages.views.figures import StateTab, state_tabs
from rsmq.web.routes.jobs import JobJson, JobsJson
from rsmq.web.table import Scope

_LIMIT = 100
#: A page that took longer to read does not refresh itself. Reads wait, so that Redis is busy with
#: them for a tenth of the time.
_LIVE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class JobsPage:
    """The jobs of a queue, those in a state or all; live if they are read soon enough."""

    limit: ClassVar[int] = _LIMIT
    queue: str
    jobs: list[JobJson]
    state: str | None
    tabs: list[StateTab]
    is_live: bool


async def _show(call: PageCall) -> JobsPage:
    """Return the page; without an index of jobs all keys are read: if that takes long, once."""
    names, state = {"queue": call.names["queue"]}, call.query.get("state") or None
    begun_at = time.monotonic()
    found = await call.read(JobsJson, names, state=state, limit=_LIMIT)
    is_live = time.monotonic() - begun_at < _LIVE_SECONDS
    return JobsPage(names["queue"], found["jobs"], state, state_tabs(JobState, state), is_live)


PAGES = (PageEntry("/queues/{queue}/jobs", "jobs.html", Scope.PEEK, _show, below="/queues"),)
