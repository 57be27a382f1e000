"""
Whether a queue is a dead-letter queue, and of which queues.
"""

from __future__ import annotations

from redis.exceptions import ResponseError

from rsmq.web.pages.table import PageCall
from rsmq.web.routes.dead_letters import DeadLetterQueuesJson
from rsmq.web.routes.forms import StoredJson
from rsmq.web.routes.message_list import MessagesJson
from rsmq.web.table import Scope


async def sources_of(call: PageCall, queue: str) -> list[str] | None:
    """
    Return the queues whose policies name a queue; None if it is not a dead-letter queue.

    One to which workers have moved messages may have no source: then a reason may name it. It is
    None too if the caller lacks ``stats``, or if the Redis user may not read all queues: a page of
    one queue needs only that queue.

    All queues are read for it, at most once a minute for all pages, and after each action.
    """
    if not call.may(Scope.STATS, None):
        return None
    try:
        listed = await call.read_lasting(DeadLetterQueuesJson)
    except ResponseError:
        return None
    return next((each["sources"] for each in listed["queues"] if each["queue"] == queue), None)


async def read_newest(call: PageCall, queue: str) -> StoredJson | None:
    """Return the visible message that came last, if the caller may see it: two commands."""
    if not call.may(Scope.PEEK, queue):
        return None
    page = await call.read(MessagesJson, {"queue": queue}, state="visible", start=-1, limit=1)
    return next(iter(page["messages"]), None)
