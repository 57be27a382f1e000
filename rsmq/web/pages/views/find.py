"""
The results of the field at the head of each page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rsmq.web.pages.links import with_query
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.routes.find import FoundJson, PlaceJson
from rsmq.web.table import Scope

#: The names of the kinds, for people.
_KINDS = {
    "message": "message", "job": "job", "unique_key": "message with this unique key",
    "group": "message of this group", "limit_key": "message of this limit key",
    "rate": "queue with messages of this limit key, which has only a rate",
    "queue": "queue", "task": "task", "worker": "worker", "flow": "flow",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FindPage:
    """The results of a search for a text, and the address of the search in the next queues."""

    kinds: ClassVar[Mapping[str, str]] = _KINDS
    q: str
    found: list[PlaceJson]
    looked_at: int
    next: str | None


async def _show(call: PageCall) -> FindPage:
    """Return the values: three commands, and one for each 50 queues, for two seconds at most."""
    text = call.query.get("q", "").strip()
    cursor = call.query.get("cursor")
    if not text:
        return FindPage("", [], 0, None)
    page = await call.read(FoundJson, q=text, cursor=cursor)
    following = page["cursor"] and with_query({"q": text, "cursor": page["cursor"]})
    return FindPage(text, page["found"], page["looked_at"], following)


PAGES = (PageEntry("/find", "find.html", Scope.STATS, _show, refreshes=False),)
