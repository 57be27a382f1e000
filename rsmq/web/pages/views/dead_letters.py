"""
Dead letters: the queues that have them, and those of one in groups of the same cause.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import ClassVar

from rsmq.search.failure_causes import UNKNOWN_CAUSE
from rsmq.web.pages.crash_evidence import UNKNOWN_ENDS
from rsmq.web.pages.formats import show_number
from rsmq.web.pages.links import with_query
from rsmq.web.pages.recent_changes import moved_ids, read_changes, say_changes, say_moves
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.pages.views.dead_letter_queues import read_newest
from rsmq.web.pages.views.figures import Figure, counted
from rsmq.web.routes.dead_letters import DeadLetterQueueJson, DeadLetterQueuesJson
from rsmq.web.routes.explanations import GroupJson, GroupsJson
from rsmq.web.routes.forms import QueueJson, StoredJson
from rsmq.web.table import Scope

#: Queues of which the newest dead letter is read: two commands each.
_MAX_READ = 20
#: Sources of a dead-letter queue whose policies are shown: one command each.
_MAX_POLICIES = 3


@dataclass(frozen=True, slots=True)
class DeadLettersPage:
    """The dead-letter queues, each with its newest message if that was read."""

    rows: list[tuple[DeadLetterQueueJson, StoredJson | None]]
    figures: list[Figure]


async def _show(call: PageCall) -> DeadLettersPage:
    """Show the list: one command for each 50 queues, and two for each of the first twenty."""
    listed = (await call.read(DeadLetterQueuesJson))["queues"]
    newest = await asyncio.gather(*(_newest(call, each) for each in listed[:_MAX_READ]))
    rows = [*zip(listed, newest, strict=False), *((each, None) for each in listed[_MAX_READ:])]
    new = sum(each["new_messages"] for each in listed)
    figures = [
        counted(sum(each["messages"] for each in listed), "dead letter"),
        Figure("new", show_number(new), "in an hour", "bad" if new else ""),
        counted(len(listed), "dead-letter queue"),
    ]
    return DeadLettersPage(rows, figures)


async def _newest(call: PageCall, queue: DeadLetterQueueJson) -> StoredJson | None:
    return await read_newest(call, queue["queue"]) if queue["visible"] else None


@dataclass(frozen=True, slots=True)
class GroupsPage:
    """
    The dead letters of a queue by their causes.

    Attributes:
        policies: the queues whose policies may have moved those without a reason here.
        are_moved: whether people have moved all of these.
    """

    unknown_ends: ClassVar[str] = UNKNOWN_ENDS
    queue: QueueJson
    groups: list[GroupJson]
    scanned: int
    others: int
    next: str | None
    first: str | None
    sources: list[str]
    policies: list[QueueJson]
    are_moved: bool
    moves: str
    changes: list[str]
    figures: list[Figure]


async def _show_groups(call: PageCall) -> GroupsPage:
    """Show the groups of up to 10,000 dead letters: a command for each 200 of them."""
    names = dict(call.names)
    queue, page, listed = await asyncio.gather(
        call.read(QueueJson, names),
        call.read(GroupsJson, names, cursor=call.query.get("cursor")),
        call.read(DeadLetterQueuesJson),
    )
    groups = page["groups"]
    sources = [each["sources"] for each in listed["queues"] if each["queue"] == queue["name"]]
    shown = sources[0] if sources else []
    again = sum(each["redriven"] for each in groups)
    policies = await _policies(call, groups, shown)
    entries = await read_changes(call) if policies else ()
    figures = [
        counted(queue["messages"], "dead letter"),
        counted(len(groups), "cause", "here" if page["cursor"] else ""),
        Figure("died again", show_number(again), "after a redrive", "warn" if again else ""),
    ]
    return GroupsPage(
        queue, groups, page["scanned"], page["others"],
        next=page["cursor"] and with_query({"cursor": page["cursor"]}),
        first="?" if "cursor" in call.query else None,
        sources=shown, policies=policies, figures=figures,
        are_moved=_are_moved(groups, moved_ids(entries, queue["name"])),
        moves=say_moves(entries, queue["name"]),
        changes=say_changes(entries, [each["name"] for each in policies], time.time() * 1000),
    )  # fmt: skip


def _are_moved(groups: list[GroupJson], moved: set[str]) -> bool:
    """Return whether people have moved all dead letters without a reason, and no policy has."""
    unknown = [each for each in groups if each["key"] == UNKNOWN_CAUSE]
    return all(len(each["ids"]) == each["count"] and moved >= {*each["ids"]} for each in unknown)


async def _policies(call: PageCall, groups: list[GroupJson], sources: list[str]) -> list[QueueJson]:
    """Return the queues whose policies move messages here, if a dead letter has no reason."""
    if all(each["key"] != UNKNOWN_CAUSE for each in groups):
        return []
    names = [each for each in sources if call.may(Scope.STATS, each)][:_MAX_POLICIES]
    reads = (call.read(QueueJson, {"queue": each}) for each in names)
    return list(await asyncio.gather(*reads))


PAGES = (
    PageEntry("/dead-letters", "dead_letters.html", Scope.STATS, _show, menu="Dead letters"),
    PageEntry(
        "/dead-letters/{queue}", "dead_letter_groups.html", Scope.PEEK, _show_groups,
        below="/dead-letters", refreshes=False,
    ),
)  # fmt: skip
