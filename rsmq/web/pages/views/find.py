"""
The results of the field at the head of each page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsmq.web.pages.links import with_query
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.table import Scope

#: The names of the kinds, for people.
_KINDS = {
    "message": "message", "job": "job", "unique_key": "message with this unique key",
    "group": "message of this group", "limit_key": "message of this limit key",
    "queue": "queue", "task": "task", "worker": "worker", "flow": "flow",
}  # fmt: skip


async def _show(call: PageCall) -> Mapping[str, Any]:
    """Return the values: three commands, and one for each 50 queues, for two seconds at most."""
    text = call.query.get("q", "").strip()
    cursor = call.query.get("cursor")
    if not text:
        return {"q": "", "found": [], "next": None, "looked_at": 0, "kinds": _KINDS}
    page = await call.read("/find", q=text, cursor=cursor)
    return {
        "q": text,
        "found": page["found"],
        "looked_at": page["looked_at"],
        "next": page["cursor"] and with_query({"q": text, "cursor": page["cursor"]}),
        "kinds": _KINDS,
    }


PAGES = (PageEntry("/find", "find.html", Scope.STATS, _show, refreshes=False),)
