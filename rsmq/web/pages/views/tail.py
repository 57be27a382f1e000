"""
The tail of a queue: its new messages as they are sent, by the stream of the API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.table import Scope


async def _show(call: PageCall) -> Mapping[str, Any]:
    queue = await call.read("/queues/{queue}", {"queue": call.names["queue"]})
    return {"queue": queue}


PAGES = (
    PageEntry(
        "/queues/{queue}/tail", "tail.html", Scope.PEEK, _show, below="/queues", refreshes=False
    ),
)
