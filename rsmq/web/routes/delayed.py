"""
The messages of all queues that wait for their time.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rsmq.web.fields import Field, Shape, between
from rsmq.web.hidden import MAX_QUEUES, WaitingCounts, read_waiting
from rsmq.web.operations import NextMessage
from rsmq.web.routes.forms import may, whole
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope
from rsmq.wire.limits import check_whole_number

_MAX_LIMIT = 500


async def _list(call: ApiCall) -> ApiAnswer:
    limit = check_whole_number("limit", call.values.get("limit", 50), 1, _MAX_LIMIT)
    names = [name for name in await call.walks.names() if may(call, Scope.STATS, name)]
    hidden, _ = await call.walks.values(names, "hidden")
    found = await read_waiting(call.queues, hidden, limit)
    return ApiAnswer(
        {
            "queues": list(map(_show_queue, found.queues)),
            "messages": [_show(call, queue, each) for queue, each in found.messages],
            "others": found.others,
        }
    )


def _show_queue(waiting: WaitingCounts) -> dict[str, Any]:
    return {
        "queue": waiting.queue,
        **asdict(waiting.counts),
        "next_ms": whole(waiting.next_ms),
    }


def _show(call: ApiCall, queue: str, message: NextMessage) -> dict[str, Any]:
    sees_bodies = may(call, Scope.PEEK, queue)  # which an error may quote
    return {
        "queue": queue,
        "id": message.id,
        "state": "delayed" if message.error is None else "retrying",
        "visible_at_ms": whole(message.visible_at_ms),
        "receive_count": message.receive_count,
        "last_error": call.redaction.failure(message.error) if sees_bodies else None,
    }


ROUTES = (
    Route(
        "GET", "/delayed", Scope.STATS,
        "List the next delayed and retrying messages of all queues.", _list, ("list_queues",),
        query=(
            Field(
                "limit", Shape.WHOLE, "Messages, 1 to 500; 50 by default.",
                rule=between(1, _MAX_LIMIT),
            ),
        ),
        result=(
            Field("queues", Shape.OBJECTS, f"The {MAX_QUEUES} with the most hidden messages: "
            "delayed, retrying, in_flight, next_ms, and margin, by how much these numbers of a "
            "sample differ at most; 0 if they are exact."),
            Field("messages", Shape.OBJECTS, "In the order in which they become visible: queue, "
            "id, state, visible_at_ms, receive_count and last_error. Those behind 50 that are in "
            "flight in their queue are left out."),
            Field("others", Shape.WHOLE, "Queues with hidden messages that were not looked at."),
        ),
    ),
)  # fmt: skip
