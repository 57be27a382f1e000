"""
Groups dead letters by their causes, within a budget of Redis's time.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from rsmq.explain.failure_groups import FailureGroups
from rsmq.search.operations import SearchPosition, read_reasons
from rsmq.web.client import Client
from rsmq.web.search import MAX_SECONDS, run_paced


@dataclass(frozen=True, slots=True)
class GroupPage:
    """
    Dead letters in groups.

    Attributes:
        found: the groups.
        next: where the next page begins; None after the last one.
    """

    found: FailureGroups
    next: SearchPosition | None


async def read_groups(
    queues: Client,
    qname: str,
    max_messages: int,
    position: SearchPosition | None = None,
) -> GroupPage:
    """
    Group the dead letters behind a position.

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
    keys = queues.namespace.queue(qname)
    behind: SearchPosition | None = position or SearchPosition()
    while behind and found.count < max_messages and (not found.count or loop.time() < end):
        letters, behind = await run_paced(queues, read_reasons(keys, behind))
        for each in letters:
            found.add(each)
    return GroupPage(found, behind)
