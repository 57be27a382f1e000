"""
The messages of all queues that wait for their time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypedDict

from rsmq.figures.facts import HIDDEN, NEXT, NextMessage
from rsmq.figures.reading import ReadFacts, read_queues_in_steps
from rsmq.web.fields import number_of
from rsmq.web.routes.forms import may, show_as, whole
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope
from rsmq.wire.limits import check_whole_number

_MAX_LIMIT = 500
#: Queues that are looked at: those with the most hidden messages.
_MAX_QUEUES = 50


class HiddenQueueJson(TypedDict):
    """The hidden messages of a queue."""

    queue: Annotated[str, "Its name."]
    delayed: Annotated[int, "Delayed messages."]
    retrying: Annotated[int, "Those that wait for a retry."]
    in_flight: Annotated[int, "Those in flight."]
    held_back: Annotated[int, "Those that wait for others of their group or limit_key."]
    margin: Annotated[int, "By how much numbers of a sample differ at most; 0 if they are exact."]
    next_ms: Annotated[int | None, "When the next one becomes visible, Unix ms."]


class NextMessageJson(TypedDict):
    """A message that waits for its time."""

    queue: Annotated[str, "Its queue."]
    id: Annotated[str, "Its id."]
    state: Annotated[str, "delayed or retrying."]
    visible_at_ms: Annotated[int, "When it becomes visible, Unix ms."]
    receive_count: Annotated[int, "How often it was received."]
    last_error: Annotated[str | None, "The failure of its last attempt."]


class DelayedJson(TypedDict):
    """The hidden messages of all queues."""

    queues: Annotated[list[HiddenQueueJson], f"The {_MAX_QUEUES} with the most hidden messages."]
    messages: Annotated[
        list[NextMessageJson],
        "In the order in which they become visible. Those behind 50 that are in flight in their "
        "queue are left out.",
    ]
    others: Annotated[int, "Queues with hidden messages that were not looked at."]


async def _list(call: ApiCall) -> ApiAnswer[DelayedJson]:
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


def _show_queue(name: str, facts: ReadFacts) -> HiddenQueueJson:
    messages = facts[NEXT]
    next_ms = whole(messages[0].visible_at_ms) if messages else None
    return show_as(HiddenQueueJson, facts[HIDDEN], queue=name, next_ms=next_ms)


def _show(call: ApiCall, queue: str, message: NextMessage) -> NextMessageJson:
    sees_bodies = may(call, Scope.PEEK, queue)  # which an error may quote
    return show_as(
        NextMessageJson, message, queue=queue,
        state="delayed" if message.error is None else "retrying",
        last_error=call.redaction.failure(message.error) if sees_bodies else None,
    )  # fmt: skip


ROUTES = (
    Route(
        "GET", "/delayed", Scope.STATS,
        "List the next delayed and retrying messages of all queues.", _list, ("list_queues",),
        query=(
            number_of("Messages", _MAX_LIMIT, 50),
        ),
        result=DelayedJson,
    ),
)  # fmt: skip
