"""
Groups dead letters by their causes, within a budget of Redis's time.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from rsmq.search.failure_groups import FailureGroups
from rsmq.search.operations import SearchPosition, read_reasons
from rsmq.web.client import Client
from rsmq.web.search import MAX_SECONDS, run_paced


@dataclass(frozen=True, slots=True)
class GroupPage:
    """
    Dead letters in groups.

    Attributes:
        found: the groups.
        next: the cell where the next page begins, and the position there; None after the last one.
    """

    found: FailureGroups
    next: tuple[int, SearchPosition] | None


async def read_groups(
    queues: Client,
    qname: str,
    max_messages: int,
    cell: int = 0,
    position: SearchPosition | None = None,
) -> GroupPage:
    """
    Group the dead letters behind a position, of a cell and those after it.

    It ends early, after two seconds. The groups of two pages with the same key belong together.

    Args:
        max_messages: the dead letters to look at, rounded up to a step of 200.
        position: None is the first one.

    Raises:
        QueueNotFound: the queue does not exist.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + MAX_SECONDS
    found = FailureGroups()
    place: tuple[int, SearchPosition] | None = (cell, position or SearchPosition())
    while place and found.count < max_messages and (not found.count or loop.time() < end):
        cell, at = place
        client: Any = await queues.engine.client(cell)
        letters, behind = await run_paced(client, read_reasons(client.namespace.queue(qname), at))
        for each in letters:
            found.add(replace(each, id=queues.engine.show_id(cell, each.id)))
        if behind is not None:
            place = (cell, behind)
        else:
            place = (cell + 1, SearchPosition()) if cell + 1 < queues.engine.number else None
    return GroupPage(found, place)
