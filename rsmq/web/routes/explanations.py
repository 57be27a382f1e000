"""
Why messages and queues do not move, the timeline of a message, and dead letters by cause.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from rsmq.explain import (
    Explanation,
    ObservedMessage,
    explain_message,
    explain_queue,
    message_timeline,
    observe_message,
    observe_queue,
)
from rsmq.search.failure_groups import FailureGroup
from rsmq.search.redaction import Redaction
from rsmq.web.access.principals import ALL_QUEUES
from rsmq.web.dead_letter_groups import read_groups
from rsmq.web.fields import Field, Shape, between
from rsmq.web.routes.forms import (
    QUEUE,
    make_position_cursor,
    may,
    read_position,
    show_fields,
    whole,
)
from rsmq.web.routes.undo import scope_of, show_deletion
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope
from rsmq.wire.limits import check_whole_number

_MAX_GROUPED = 10_000


async def _facts(call: ApiCall) -> ObservedMessage:
    facts = await observe_message(call.queues, call.names[QUEUE], call.names["id"])
    return facts.shown_to(
        call.redaction,
        lambda queue: may(call, Scope.PEEK, queue),
        lambda deletion: may(call, scope_of(deletion), deletion.queue),
    )


async def _explain_message(call: ApiCall) -> ApiAnswer:
    facts = await _facts(call)
    holder = facts.holder
    return ApiAnswer(
        show_explanation(explain_message(facts))
        | {
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


async def _explain_queue(call: ApiCall) -> ApiAnswer:
    facts = await observe_queue(
        call.queues, call.names[QUEUE], sees_server=may(call, Scope.STATS, ALL_QUEUES)
    )
    purge = facts.purge
    may_undo = purge is not None and may(call, scope_of(purge), purge.queue)
    if purge is not None and not may_undo:
        facts = replace(facts, purge=replace(purge, by=""))
    shown = show_deletion(purge) if purge is not None and may_undo else None
    streams = [
        {"name": each.name, "seen_ms": each.seen_ms, "received": each.received[facts.name]}
        for each in facts.streams
    ]
    return ApiAnswer(show_explanation(explain_queue(facts)) | {"purge": shown, "streams": streams})


def show_explanation(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation as a value of JSON."""
    return {
        "queue": explanation.queue,
        "id": explanation.id,
        "now_ms": explanation.now_ms,
        "cause": explanation.cause.value,
        "sentence": explanation.sentence,
        "causes": [{"cause": each.cause.value, "text": each.text} for each in explanation.causes],
    }


async def _timeline(call: ApiCall) -> ApiAnswer:
    facts = await _facts(call)
    return ApiAnswer({"queue": facts.queue.name, "id": facts.id, "events": _show_events(facts)})


def _show_events(facts: ObservedMessage) -> list[dict[str, Any]]:
    return [asdict(event) | {"at_ms": whole(event.at_ms)} for event in message_timeline(facts)]


async def _groups(call: ApiCall) -> ApiAnswer:
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


def show_group(group: FailureGroup, redaction: Redaction) -> dict[str, Any]:
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
        "example": None if example is None else show_fields(example),
    }


_EVENTS = Field(
    "events", Shape.OBJECTS, "In their order: kind, at_ms (null if it is not known), text, "
    "is_estimate, and detail, the traceback of a dead letter.",
)  # fmt: skip
_EXPLANATION = (
    Field("queue", Shape.TEXT, "The name of the queue."),
    Field("id", Shape.TEXT, "The id of the message; null for a queue."),
    Field("now_ms", Shape.WHOLE, "Unix ms of the server when it was read."),
    Field("cause", Shape.TEXT, "The cause that decides, such as paused, held or waiting."),
    Field("sentence", Shape.TEXT, "It in a sentence with its evidence; times are in UTC."),
    Field("causes", Shape.OBJECTS, "It and the others that hold too: cause and text of each."),
)

ROUTES = (
    Route(
        "GET", "/queues/{queue}/why", Scope.STATS, "Say why a queue is not drained.",
        _explain_queue,
        result=(
            *_EXPLANATION,
            Field("purge", Shape.OBJECT, "Of an empty queue the last purge, as in GET /undo, if "
            "the caller may undo it; or null."),
            Field("streams", Shape.OBJECTS, "The streams of Spark that read it, also those that "
            "wait: name, seen_ms, and received, the messages of the minute before."),
        ),
    ),
    Route(
        "GET", "/queues/{queue}/messages/{id}/why", Scope.PEEK,
        "Say why a message does not move, also if it is not in the queue any more.",
        _explain_message,
        result=(
            *_EXPLANATION,
            Field("attempts", Shape.WHOLE, "Its receives that began an attempt."),
            Field("max_attempts", Shape.WHOLE, "After how many it is a dead letter; or null."),
            Field("has_own_limit", Shape.FLAG, "Whether max_attempts is of the message itself, and "
            "not of the policy of its queue."),
            Field("max_receives", Shape.WHOLE, "The limit of the policy of its queue; or null."),
            Field("messages_before", Shape.WHOLE, "How many are in front of it in the queue."),
            Field("expires_ms", Shape.WHOLE, "Unix ms from which it is too old; or null."),
            Field("redriven", Shape.FLAG, "Whether it was sent again from a dead-letter queue."),
            Field("holder", Shape.OBJECT, "The worker that has it: name and is_alive; or null."),
            _EVENTS,
        ),
    ),
    Route(
        "GET", "/queues/{queue}/messages/{id}/timeline", Scope.PEEK,
        "Read what is known of the past and the future of a message.", _timeline,
        result=(
            Field("queue", Shape.TEXT, "The name of the queue."),
            Field("id", Shape.TEXT, "The id of the message."),
            _EVENTS,
        ),
    ),
    Route(
        "GET", "/queues/{queue}/dead-letters/groups", Scope.PEEK,
        "Read the dead letters of a queue in groups of the same cause.", _groups,
        query=(
            Field(
                "max", Shape.WHOLE, "Dead letters to look at, 1 to 10,000; 10,000 by default.",
                rule=between(1, _MAX_GROUPED),
            ),
            Field("cursor", Shape.TEXT, "The cursor of the page before."),
        ),
        result=(
            Field("groups", Shape.OBJECTS, "The largest first: key, for the filter cause:KEY, "
            "exception, text and frames of the failure, count, first_died_ms, last_died_ms, ids "
            "(the last five), queues, redriven (how many had been redriven before), and example, "
            "the reason of the last one."),
            Field("scanned", Shape.WHOLE, "The dead letters that were looked at."),
            Field("others", Shape.WHOLE, "Those of them beyond 200 groups."),
            Field("cursor", Shape.TEXT, "For the next page; null after the last. Groups of two "
            "pages with the same key belong together."),
        ),
    ),
)  # fmt: skip
