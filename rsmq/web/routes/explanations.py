"""
Why messages and queues do not move, the timeline of a message, and dead letters by cause.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, TypedDict

from rsmq.explain import (
    Explanation,
    ObservedMessage,
    ObservedQueue,
    explain_message,
    explain_queue,
    message_timeline,
    observe_message,
    observe_queue,
)
from rsmq.explain.failure_groups import FailureGroup
from rsmq.search.redaction import Redaction
from rsmq.web.access.principals import ALL_QUEUES
from rsmq.web.dead_letter_groups import read_groups
from rsmq.web.fields import Field, Shape, number_of
from rsmq.web.routes.forms import (
    QUEUE,
    ReasonJson,
    make_position_cursor,
    may,
    read_position,
    show_as,
    whole,
)
from rsmq.web.routes.undo import DeletionJson, scope_of, show_deletion
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope
from rsmq.wire.limits import check_whole_number

_MAX_GROUPED = 10_000


class CauseJson(TypedDict):
    """A cause."""

    cause: Annotated[str, "Its name, such as paused, held or waiting."]
    text: Annotated[str, "It in a sentence."]


class WhyJson(TypedDict):
    """The reason why something does not move."""

    queue: Annotated[str, "The name of the queue."]
    id: Annotated[str | None, "The id of the message; null for a queue."]
    now_ms: Annotated[int, "Unix ms of the server when it was read."]
    cause: Annotated[str, "The cause that decides, such as paused, held or waiting."]
    sentence: Annotated[str, "It in a sentence with its evidence; times are in UTC."]
    causes: Annotated[list[CauseJson], "It and the others that hold too."]


class StreamJson(TypedDict):
    """A stream of Spark that reads a queue."""

    name: Annotated[str, "Its name."]
    seen_ms: Annotated[int, "Unix ms of its last sign of life."]
    received: Annotated[int, "The messages of the minute before."]


class QueueWhyJson(WhyJson):
    """The reason why a queue is not drained."""

    purge: Annotated[DeletionJson | None, "Of an empty queue its last purge, if it can be undone."]
    flooding: Annotated[str | None, "Of a flooded queue the limit key or group with most messages."]
    streams: Annotated[list[StreamJson], "The streams that read it, also those that wait."]


class EventJson(TypedDict):
    """An event of a message."""

    kind: Annotated[str, "Its kind."]
    at_ms: Annotated[int | None, "Unix ms; null if it is not known."]
    text: Annotated[str, "It in a sentence."]
    is_estimate: Annotated[bool, "Whether it is concluded from others."]
    detail: Annotated[str | None, "The traceback of a dead letter."]


class TimelineJson(TypedDict):
    """The past and the future of a message."""

    queue: Annotated[str, "The name of the queue."]
    id: Annotated[str, "The id of the message."]
    events: Annotated[list[EventJson], "In their order."]


class HolderJson(TypedDict):
    """A worker that has a message in flight."""

    name: Annotated[str, "Its name."]
    is_alive: Annotated[bool, "Whether it gives signs of life."]


class MessageWhyJson(WhyJson):
    """The reason why a message does not move."""

    attempts: Annotated[int, "Its receives that began an attempt."]
    max_attempts: Annotated[int | None, "After how many it is a dead letter; or null."]
    has_own_limit: Annotated[bool, "Whether max_attempts is of the message, not of the policy."]
    max_receives: Annotated[int | None, "The limit of the policy of its queue; or null."]
    messages_before: Annotated[int | None, "How many are in front of it in the queue."]
    expires_ms: Annotated[int | None, "Unix ms from which it is too old; or null."]
    redriven: Annotated[bool, "Whether it was sent again from a dead-letter queue."]
    holder: Annotated[HolderJson | None, "The worker that has it; or null."]
    events: Annotated[list[EventJson], "In their order."]


class GroupJson(TypedDict):
    """Dead letters of the same cause."""

    key: Annotated[str, "For the filter cause:KEY."]
    exception: Annotated[str | None, "The exception."]
    text: Annotated[str | None, "Its text."]
    frames: Annotated[list[str], "Its frames."]
    count: Annotated[int, "Their number."]
    first_died_ms: Annotated[int | None, "Unix ms."]
    last_died_ms: Annotated[int | None, "Unix ms."]
    ids: Annotated[list[str], "The last five."]
    queues: Annotated[dict[str, int], "Their numbers by the queues that they came from."]
    redriven: Annotated[int, "How many had been redriven before."]
    example: Annotated[ReasonJson | None, "The reason of the last one."]


class GroupsJson(TypedDict):
    """The dead letters of a queue by their causes."""

    groups: Annotated[list[GroupJson], "The largest first."]
    scanned: Annotated[int, "The dead letters that were looked at."]
    others: Annotated[int, "Those of them beyond 200 groups."]
    cursor: Annotated[
        str | None,
        "For the next page; null after the last. Groups of two pages with the same key belong "
        "together.",
    ]


async def _facts(call: ApiCall) -> ObservedMessage:
    facts = await observe_message(call.queues, call.names[QUEUE], call.names["id"])
    return replace(facts, queue=_restrict_workers(call, facts.queue)).shown_to(
        call.redaction,
        lambda queue: may(call, Scope.PEEK, queue),
        lambda deletion: may(call, scope_of(deletion), deletion.queue),
    )


async def _explain_message(call: ApiCall) -> ApiAnswer[MessageWhyJson]:
    facts = await _facts(call)
    holder = facts.holder
    return ApiAnswer(
        {
            **show_explanation(explain_message(facts)),
            "attempts": facts.attempts,
            "max_attempts": facts.max_attempts,
            "has_own_limit": facts.has_own_limit,
            "max_receives": facts.queue.attributes.max_receives,
            "messages_before": facts.ids_before if facts.is_there else None,
            "expires_ms": whole(facts.expires_ms),
            "redriven": facts.is_redriven,
            "holder": None if holder is None else {"name": holder.name, "is_alive": holder.alive},
            "events": _show_events(facts),
        }
    )


async def _explain_queue(call: ApiCall) -> ApiAnswer[QueueWhyJson]:
    facts = await observe_queue(
        call.queues, call.names[QUEUE], sees_server=may(call, Scope.STATS, ALL_QUEUES)
    )
    facts = _restrict_workers(call, facts)
    purge = facts.purge
    may_undo = purge is not None and may(call, scope_of(purge), purge.queue)
    if purge is not None and not may_undo:
        facts = replace(facts, purge=replace(purge, by=""))
    shown = show_deletion(purge) if purge is not None and may_undo else None
    streams = [
        show_as(StreamJson, each, received=each.received[facts.name]) for each in facts.streams
    ]
    why = show_explanation(explain_queue(facts))
    group = facts.largest_group
    flooding = (group.name.limit_key or group.name.group) if group and group.floods else None
    return ApiAnswer({**why, "purge": shown, "flooding": flooding, "streams": streams})


def _restrict_workers(call: ApiCall, facts: ObservedQueue) -> ObservedQueue:
    def may_see(queue: str) -> bool:
        return may(call, Scope.STATS, queue)

    return replace(facts, workers=tuple(each.restrict(may_see) for each in facts.workers))


def show_explanation(explanation: Explanation) -> WhyJson:
    """Return an explanation as a value of JSON."""
    causes = [{"cause": each.cause.value, "text": each.text} for each in explanation.causes]
    return show_as(WhyJson, explanation, cause=explanation.cause.value, causes=causes)


async def _timeline(call: ApiCall) -> ApiAnswer[TimelineJson]:
    facts = await _facts(call)
    return ApiAnswer({"queue": facts.queue.name, "id": facts.id, "events": _show_events(facts)})


def _show_events(facts: ObservedMessage) -> list[EventJson]:
    return [show_as(EventJson, event) for event in message_timeline(facts)]


async def _groups(call: ApiCall) -> ApiAnswer[GroupsJson]:
    number = check_whole_number("max", call.values.get("max", _MAX_GROUPED), 1, _MAX_GROUPED)
    cursor = call.values.get("cursor")
    position = None if cursor is None else read_position(cursor)
    page = await read_groups(call.queues, call.names[QUEUE], number, position)
    return ApiAnswer(
        {
            "groups": [show_group(each, call.redaction) for each in page.found.groups()],
            "scanned": page.found.count,
            "others": page.found.others,
            "cursor": make_position_cursor(page.next),
        }
    )


def show_group(group: FailureGroup, redaction: Redaction) -> GroupJson:
    """Return a group as its reader may see it: the texts of failures may quote values."""
    example = redaction.reason(group.example)
    return {
        "key": group.cause.key,
        "exception": group.cause.exception,
        "text": None if redaction else group.cause.text,
        "frames": [] if redaction else list(group.cause.frames),
        "count": group.count,
        "first_died_ms": whole(group.first_died_ms),
        "last_died_ms": whole(group.last_died_ms),
        "ids": list(group.ids),
        "queues": dict(group.queues),
        "redriven": group.redriven,
        "example": None if example is None else show_as(ReasonJson, example),
    }


ROUTES = (
    Route(
        "GET", "/queues/{queue}/why", Scope.STATS, "Say why a queue is not drained.",
        _explain_queue,
        result=QueueWhyJson,
    ),
    Route(
        "GET", "/queues/{queue}/messages/{id}/why", Scope.PEEK,
        "Say why a message does not move, also if it is not in the queue any more.",
        _explain_message,
        result=MessageWhyJson,
    ),
    Route(
        "GET", "/queues/{queue}/messages/{id}/timeline", Scope.PEEK,
        "Read what is known of the past and the future of a message.", _timeline,
        result=TimelineJson,
    ),
    Route(
        "GET", "/queues/{queue}/dead-letters/groups", Scope.PEEK,
        "Read the dead letters of a queue in groups of the same cause.", _groups,
        query=(
            number_of("Dead letters to look at", _MAX_GROUPED, _MAX_GROUPED, "max"),
            Field("cursor", Shape.TEXT, "The cursor of the page before."),
        ),
        result=GroupsJson,
    ),
)  # fmt: skip
