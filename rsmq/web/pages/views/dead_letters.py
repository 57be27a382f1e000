"""
Dead letters: the queues that have them, and those of one in groups of the same cause.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from rsmq.search.failure_causes import UNKNOWN_CAUSE
from rsmq.web.pages.crash_evidence import UNKNOWN_ENDS
from rsmq.web.pages.formats import show_number
from rsmq.web.pages.links import with_query
from rsmq.web.pages.recent_changes import moved_ids, read_changes, say_changes, say_moves
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.pages.views.dead_letter_queues import read_newest
from rsmq.web.pages.views.figures import Figure, counted
from rsmq.web.table import Scope

#: Queues of which the newest dead letter is read: two commands each.
_MAX_READ = 20
#: Sources of a dead-letter queue whose policies are shown: one command each.
_MAX_POLICIES = 3


async def _show(call: PageCall) -> Mapping[str, Any]:
    """Show the list: one command for each 50 queues, and two for each of the first twenty."""
    listed = (await call.read("/dead-letters"))["queues"]
    newest = await asyncio.gather(*(_newest(call, each) for each in listed[:_MAX_READ]))
    rows = [*zip(listed, newest, strict=False), *((each, None) for each in listed[_MAX_READ:])]
    number, new = (sum(each[name] for each in listed) for name in ("messages", "new_messages"))
    return {
        "rows": rows,
        "figures": [
            counted(number, "dead letter"),
            Figure("new", show_number(new), "in an hour", "bad" if new else ""),
            counted(len(listed), "dead-letter queue"),
        ],
    }


async def _newest(call: PageCall, queue: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return await read_newest(call, queue["queue"]) if queue["visible"] else None


async def _show_groups(call: PageCall) -> Mapping[str, Any]:
    """Show the groups of up to 10,000 dead letters: a command for each 200 of them."""
    names, path = dict(call.names), "/queues/{queue}/dead-letters/groups"
    queue, page, listed = await asyncio.gather(
        call.read("/queues/{queue}", names),
        call.read(path, names, cursor=call.query.get("cursor")),
        call.read("/dead-letters"),
    )
    groups = page["groups"]
    sources = [each["sources"] for each in listed["queues"] if each["queue"] == queue["name"]]
    shown = sources[0] if sources else []
    again = sum(each["redriven"] for each in groups)
    policies = await _policies(call, groups, shown)
    entries = await read_changes(call) if policies else ()
    return {
        "queue": queue,
        "groups": groups,
        "scanned": page["scanned"],
        "others": page["others"],
        "next": page["cursor"] and with_query({"cursor": page["cursor"]}),
        "first": "?" if "cursor" in call.query else None,
        "sources": shown,
        "policies": policies,
        "unknown_ends": UNKNOWN_ENDS,
        "are_moved": _are_moved(groups, moved_ids(entries, queue["name"])),
        "moves": say_moves(entries, queue["name"]),
        "changes": say_changes(entries, [each["name"] for each in policies], time.time() * 1000),
        "figures": [
            counted(queue["messages"], "dead letter"),
            counted(len(groups), "cause", "here" if page["cursor"] else ""),
            Figure("died again", show_number(again), "after a redrive", "warn" if again else ""),
        ],
    }


def _are_moved(groups: list[Mapping[str, Any]], moved: set[str]) -> bool:
    """Return whether people have moved all dead letters without a reason, and no policy has."""
    unknown = [each for each in groups if each["key"] == UNKNOWN_CAUSE]
    return all(len(each["ids"]) == each["count"] and moved >= {*each["ids"]} for each in unknown)


async def _policies(
    call: PageCall, groups: list[Mapping[str, Any]], sources: list[str]
) -> list[Mapping[str, Any]]:
    """Return the queues whose policies move messages here, if a dead letter has no reason."""
    if all(each["key"] != UNKNOWN_CAUSE for each in groups):
        return []
    names = [each for each in sources if call.may(Scope.STATS, each)][:_MAX_POLICIES]
    reads = (call.read("/queues/{queue}", {"queue": each}) for each in names)
    return list(await asyncio.gather(*reads))


PAGES = (
    PageEntry("/dead-letters", "dead_letters.html", Scope.STATS, _show, menu="Dead letters"),
    PageEntry(
        "/dead-letters/{queue}", "dead_letter_groups.html", Scope.PEEK, _show_groups,
        below="/dead-letters", refreshes=False,
    ),
)  # fmt: skip
