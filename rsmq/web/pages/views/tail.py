"""
The tail of a queue: its new messages as they are sent, by the stream of the API.
"""

from __future__ import annotations

from dataclasses import dataclass

from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.routes.forms import QueueJson
from rsmq.web.table import Scope


@dataclass(frozen=True, slots=True)
class TailPage:
    """The queue whose tail is shown."""

    queue: QueueJson


async def _show(call: PageCall) -> TailPage:
    return TailPage(await call.read(QueueJson, {"queue": call.names["queue"]}))


PAGES = (
    PageEntry(
        "/queues/{queue}/tail", "tail.html", Scope.PEEK, _show, below="/queues", refreshes=False
    ),
)
