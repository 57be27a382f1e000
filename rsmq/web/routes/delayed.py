"""
The messages of all queues that wait for their time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rsmq.figures.facts import HIDDEN, NEXT, NextMessage
from rsmq.figures.reading import ReadFacts, read_queues_in_steps
from rsmq.web.fields import Field, Shape, between
from rsmq.web.routes.forms import may, whole
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope
from rsmq.wire.limits import check_whole_number

_MAX_LIMIT = 500
#: Queues that are looked at: those with the most hidden messages.
_MAX_QUEUES = 50


async def _list(call: ApiCall) -> ApiAnswer:
    limit = check_whole_number("limit", call.values.get("limit", 50), 1, _MAX_LIMIT)
    names = [name for name in await call.walks.names() if may(call, Scope.STATS, name)]
    hidden, _ = await call.walks.values(names, "hidden")
    chosen = sorted((name for name in hidden if hidden[name]), key=lambda each: -hidden[each])
    reading = read_queues_in_steps(call.queues.namespace, chosen[:_MAX_QUEUES], HIDDEN, NEXT)
    read = await call.queues.run_steps(reading)
    found = {name: each for name, each in read.items() if HIDDEN in each and NEXT in each}
    return ApiAnswer(
        {
            "queues": [_show_queue(name, each) for name, each in found.items()],
            "messages": [_show(call, *each) for each in _first_of(found)[:limit]],
            "others": max(len(chosen) - _MAX_QUEUES, 0),
        }
    )


def _first_of(found: Mapping[str, ReadFacts]) -> list[tuple[str, NextMessage]]:
    """Return the next messages of all queues, each with its queue."""
    messages = [(name, each) for name, facts in found.items() for each in facts[NEXT]]
    return sorted(messages, key=lambda each: (each[1].visible_at_ms, each[0], each[1].id))


def _show_queue(name: str, facts: ReadFacts) -> dict[str, Any]:
    messages = facts[NEXT]
    next_ms = whole(messages[0].visible_at_ms) if messages else None
    return {"queue": name, **asdict(facts[HIDDEN]), "next_ms": next_ms}


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
            Field("queues", Shape.OBJECTS, f"The {_MAX_QUEUES} with the most hidden messages: "
            "delayed, retrying, in_flight, next_ms, and margin, by how much these numbers of a "
            "sample differ at most; 0 if they are exact."),
            Field("messages", Shape.OBJECTS, "In the order in which they become visible: queue, "
            "id, state, visible_at_ms, receive_count and last_error. Those behind 50 that are in "
            "flight in their queue are left out."),
            Field("others", Shape.WHOLE, "Queues with hidden messages that were not looked at."),
        ),
    ),
)  # fmt: skip
