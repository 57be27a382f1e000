"""
Operations on a queue.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, TypedDict

from rsmq.errors import InvalidValue, NoAttributeSupplied, QueueNotFound
from rsmq.vocabulary.queues import CREATE, LIMIT, SET
from rsmq.web.bulk.manager import OperationRequest
from rsmq.web.bulk.records import OperationKind
from rsmq.web.estimates import EstimatedCounts, estimate_counts
from rsmq.web.fields import Field, Refused, Shape
from rsmq.web.routes.bulk import ANSWERS, SHOWN, begin, prefers_async
from rsmq.web.routes.forms import QUEUE, QueueJson, show_as, show_attributes
from rsmq.web.routes.undo import UNDO, UNDO_RESULT, show_deletion
from rsmq.web.send_fields import list_attributes
from rsmq.web.table import ApiAnswer, ApiCall, Handler, Route, Scope
from rsmq.web.wording import ForPrograms


class CountsJson(TypedDict):
    """The messages of a queue by state."""

    visible: Annotated[int, "Visible now."]
    in_flight: Annotated[int, "Received and hidden."]
    delayed: Annotated[int, "Never received and hidden, without those held back."]
    retrying: Annotated[int, "Failed, and hidden until the next attempt."]
    held_back: Annotated[int, "Wait for others of their group or limit_key."]
    oldest_sent_ms: Annotated[int | None, "Unix ms when the oldest one was sent."]
    due_since_ms: Annotated[int | None, "Unix ms since when the next one is visible."]
    is_estimate: Annotated[bool, "Whether all but visible and due_since_ms are estimates."]
    margin: Annotated[int, "By how much these differ at most, with 95 %."]


async def _create(call: ApiCall) -> ApiAnswer:
    name = call.names[QUEUE]
    is_new = await call.queues.create_queue(name, **call.values, exist_ok=True)
    attributes = await call.queues.get_queue_attributes(name)
    if not is_new:
        others = {
            each: getattr(attributes, each)
            for each, value in call.values.items()
            if (getattr(attributes, each) or 0) != value  # keep is None without end
        }
        if others:
            raise Refused(
                "queueExists",
                "The queue exists with other attributes",
                status=409,
                value=", ".join(f"{each} {value}" for each, value in others.items()),
                hint=ForPrograms("Change them with PATCH."),
            )
    return ApiAnswer(show_attributes(name, attributes), 201 if is_new else 200)


async def _read(call: ApiCall) -> ApiAnswer:
    name = call.names[QUEUE]
    return ApiAnswer(show_attributes(name, await call.queues.get_queue_attributes(name)))


async def _change(call: ApiCall) -> ApiAnswer:
    name = call.names[QUEUE]
    before = None
    # A wrong value comes before it; and what another client has stored may be what is repaired.
    with suppress(QueueNotFound, InvalidValue):
        before = await call.queues.get_queue_attributes(name)
    changed = await call.queues.set_queue_attributes(name, **call.values)
    changes = {
        each: (getattr(before, each), getattr(changed, each))
        for each in call.values
        if before is not None and getattr(before, each) != getattr(changed, each)
    }
    return ApiAnswer(show_attributes(name, changed), changes=changes)


async def _delete(call: ApiCall) -> ApiAnswer:
    name = call.names[QUEUE]
    if call.values.get("undo"):
        deletion = await call.queues.trash.delete_queue(name, by=call.caller)
        return ApiAnswer({"undo": show_deletion(deletion)})
    await call.queues.delete_queue(name)
    return ApiAnswer(status=204)


#: Pages ask every two seconds, so they walk through short queues only.
_MAX_EXACT = 1000


async def _count(call: ApiCall) -> ApiAnswer[CountsJson]:
    name = call.names[QUEUE]
    if call.values.get("estimate"):
        found = await estimate_counts(call.queues, name, exact_up_to=_MAX_EXACT)
    else:
        found = EstimatedCounts(await call.queues.count_messages(name), 0, is_estimate=False)
    about, margin = found.is_estimate, found.margin
    return ApiAnswer(show_as(CountsJson, found.counts, is_estimate=about, margin=margin))


async def _scaling(call: ApiCall) -> ApiAnswer:
    name = call.names[QUEUE]
    found = await estimate_counts(call.queues, name)
    counts = found.counts
    unfinished = counts.visible + counts.in_flight
    return ApiAnswer(
        {
            "queue": name,
            "visible": counts.visible,
            "unfinished": unfinished,
            "messages": unfinished + counts.retrying + counts.delayed + counts.held_back,
            "is_estimate": found.is_estimate,
        }
    )


def _with_changed(method: str) -> Handler:
    """Return the handler that calls a method of the client with the queue of the path."""

    async def change(call: ApiCall) -> ApiAnswer:
        return ApiAnswer({"changed": await getattr(call.queues, method)(call.names[QUEUE])})

    return change


async def _limit(call: ApiCall) -> ApiAnswer:
    """Set limits; without values, of a DELETE, remove them."""
    name = call.names[QUEUE]
    return ApiAnswer(show_attributes(name, await call.queues.set_queue_limits(name, **call.values)))


async def _set_limits(call: ApiCall) -> ApiAnswer:
    if not call.values:
        raise NoAttributeSupplied
    return await _limit(call)


async def _purge(call: ApiCall) -> ApiAnswer:
    name = call.names[QUEUE]
    if call.values.get("undo"):
        deletion = await call.queues.trash.purge_queue(name, by=call.caller)
        return ApiAnswer({"removed": deletion.messages, "undo": show_deletion(deletion)})
    return ApiAnswer({"removed": await call.queues.purge_queue(name), "undo": None})


async def _release_all(call: ApiCall) -> ApiAnswer:
    if prefers_async(call):
        return await begin(call, OperationRequest(OperationKind.RELEASE_ALL, call.names[QUEUE]))
    return ApiAnswer({"released": await call.queues.release_all_messages(call.names[QUEUE])})


_CHANGED = (Field("changed", Shape.FLAG, "Whether that changed anything."),)

ROUTES = (
    Route(
        "PUT", "/queues/{queue}", Scope.MANAGE, "Create a queue.", _create,
        ("create_queue",), body=list_attributes(CREATE), result=QueueJson,
        answers={201: "created", 200: "it existed, with these attributes"},
    ),
    Route(
        "GET", "/queues/{queue}", Scope.STATS, "Read the attributes and counts of a queue.", _read,
        ("get_queue_attributes",), result=QueueJson,
    ),
    Route(
        "PATCH", "/queues/{queue}", Scope.MANAGE, "Change attributes of a queue.", _change,
        ("set_queue_attributes",), body=list_attributes(SET), result=QueueJson,
    ),
    Route(
        "DELETE", "/queues/{queue}", Scope.DESTROY, "Delete a queue with all its messages.",
        _delete, ("delete_queue", "trash.delete_queue"), query=(UNDO,), is_long=True,
        answers={204: "deleted", 200: "deleted, and it can be undone"}, result=(UNDO_RESULT,),
    ),
    Route(
        "GET", "/queues/{queue}/counts", Scope.STATS, "Count the messages of a queue by state.",
        _count, ("count_messages",),
        query=(
            Field(
                "estimate", Shape.FLAG, "Whether to look at 400 hidden messages only, if there are "
                "more than 1,000 messages, instead of all.",
            ),
        ),
        result=CountsJson,
    ),
    Route(
        "GET", "/queues/{queue}/scaling", Scope.STATS, "Read the numbers that scalers need.",
        _scaling, ("get_queue_attributes", "count_messages"),
        result=(
            Field("queue", Shape.TEXT, "The name."),
            Field("visible", Shape.WHOLE, "Visible messages."),
            Field("unfinished", Shape.WHOLE, "Messages that are visible or in flight."),
            Field("messages", Shape.WHOLE, "All messages."),
            Field("is_estimate", Shape.FLAG, "Whether a sample of hidden messages is counted."),
        ),
    ),
    Route(
        "PUT", "/queues/{queue}/limits", Scope.MANAGE, "Set the limits of a queue.", _set_limits,
        ("set_queue_limits",), body=list_attributes(LIMIT), result=QueueJson,
    ),
    Route(
        "DELETE", "/queues/{queue}/limits", Scope.MANAGE, "Remove the limits of a queue.",
        _limit, ("set_queue_limits",), result=QueueJson,
    ),
    Route(
        "POST", "/queues/{queue}:pause", Scope.MANAGE, "Stop workers from receiving.",
        _with_changed("pause_queue"), ("pause_queue",), result=_CHANGED,
    ),
    Route(
        "POST", "/queues/{queue}:resume", Scope.MANAGE, "Let workers receive again.",
        _with_changed("resume_queue"), ("resume_queue",), result=_CHANGED,
    ),
    Route(
        "POST", "/queues/{queue}:purge", Scope.DESTROY, "Remove all messages of a queue.", _purge,
        ("purge_queue", "trash.purge_queue"), body=(UNDO,), is_long=True,
        result=(Field("removed", Shape.WHOLE, "Their number."), UNDO_RESULT),
    ),
    Route(
        "POST", "/queues/{queue}:release-all", Scope.MANAGE, "Release all messages in flight.",
        _release_all, ("release_all_messages",),
        result=(Field("released", Shape.WHOLE, "Their number."), *SHOWN), answers=ANSWERS,
        is_long=True,
    ),
)  # fmt: skip
