"""
Operations on dead letters.
"""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from rsmq.explain.alerts.facts import dead_letter_queues
from rsmq.vocabulary.queues import POLICY
from rsmq.web.access.principals import ALL_QUEUES
from rsmq.web.bulk.manager import MAX_RATE, OperationRequest
from rsmq.web.bulk.records import OperationKind
from rsmq.web.fields import Field, Refused, Shape, between
from rsmq.web.routes.bulk import ANSWERS, BEFORE, SHOWN, begin, prefers_async, refuse_with
from rsmq.web.routes.forms import QUEUE, QueueJson, check_number, choose, may, show_attributes
from rsmq.web.send_fields import list_arguments, list_attributes
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope


class DeadLetterQueueJson(TypedDict):
    """A queue with dead letters."""

    queue: Annotated[str, "Its name."]
    messages: Annotated[int, "Its messages."]
    visible: Annotated[int, "Visible ones."]
    new_messages: Annotated[int, "Those of the last hour."]
    sources: Annotated[list[str], "The queues whose policies name it."]


class DeadLetterQueuesJson(TypedDict):
    """The queues with dead letters."""

    queues: Annotated[
        list[DeadLetterQueueJson],
        "Those of policies, and those to which workers have moved messages; with new dead letters "
        "first.",
    ]


async def _get_policy(call: ApiCall) -> ApiAnswer:
    attributes = await call.queues.get_queue_attributes(call.names[QUEUE])
    if attributes.dead_letter_queue is None:
        raise Refused("policyNotFound", "The queue has no dead-letter policy", status=404)
    return ApiAnswer({each.name: getattr(attributes, each.name) for each in _POLICY})


async def _set_policy(call: ApiCall) -> ApiAnswer:
    name = call.names[QUEUE]
    call.allow(Scope.SEND, call.values["dead_letter_queue"])  # it gets messages of this queue
    changed = await call.queues.set_dead_letter_policy(
        name, call.values["dead_letter_queue"], call.values["max_receives"]
    )
    return ApiAnswer(show_attributes(name, changed))


async def _remove_policy(call: ApiCall) -> ApiAnswer:
    name = call.names[QUEUE]
    return ApiAnswer(show_attributes(name, await call.queues.set_dead_letter_policy(name, None)))


async def _sweep(call: ApiCall) -> ApiAnswer:
    if prefers_async(call, "max"):
        return await begin(call, OperationRequest(OperationKind.SWEEP, call.names[QUEUE]))
    ids = await call.queues.sweep_dead_letters(call.names[QUEUE], _MAX.read(call.values))
    return ApiAnswer({"ids": ids})


async def _sweep_expired(call: ApiCall) -> ApiAnswer:
    if prefers_async(call, "max"):
        return await begin(call, OperationRequest(OperationKind.SWEEP_EXPIRED, call.names[QUEUE]))
    ids = await call.queues.sweep_expired(call.names[QUEUE], _MAX.read(call.values))
    return ApiAnswer({"ids": ids})


async def _sweep_groups(call: ApiCall) -> ApiAnswer:
    return ApiAnswer({"admitted": await call.queues.sweep_groups(call.names[QUEUE])})


async def _redrive(call: ApiCall) -> ApiAnswer:
    destination = call.values.get("destination")
    # Without it, each message goes to the queue that it came from, which may be any.
    call.allow(Scope.SEND, ALL_QUEUES if destination is None else destination)
    rate, before_ms = call.values.get("rate"), call.values.get("before_ms")
    filter = call.values.get("filter")
    is_of_operation = any(each is not None for each in (rate, before_ms, filter))
    if is_of_operation or prefers_async(call, "max", "ids", "receipts"):
        refuse_with(
            call, "rate, before_ms, filter or Prefer: respond-async", "max", "ids", "receipts"
        )
        return await begin(
            call,
            OperationRequest(
                OperationKind.REDRIVE,
                call.names[QUEUE],
                destination=destination,
                filter=filter,
                rate=rate,
                before_ms=before_ms,
            ),
        )
    chosen: tuple[Any, Any] = (call.names[QUEUE], None)
    number = None
    if "ids" in call.values or "receipts" in call.values:
        chosen = (*choose(call), None)[:2]
    else:
        number = check_number(_MAX_REDRIVEN, call)
    pairs = await call.queues.redrive_messages(
        chosen[0], destination, chosen[1], max_messages=number
    )
    return ApiAnswer({"messages": [{"old_id": old, "id": new} for old, new in pairs]})


async def _list(call: ApiCall) -> ApiAnswer[DeadLetterQueuesJson]:
    names = [name for name in await call.walks.names() if may(call, Scope.STATS, name)]
    states, _ = await call.walks.states(names)
    shown: list[DeadLetterQueueJson] = [
        {
            "queue": name,
            "messages": states[name].messages,
            "visible": states[name].visible,
            "new_messages": states[name].fresh,
            "sources": sorted(sources),
        }
        for name, sources in dead_letter_queues(states.values()).items()
        if name in states
    ]
    shown.sort(key=lambda each: (-each["new_messages"], -each["messages"], each["queue"]))
    return ApiAnswer({"queues": shown})


_POLICY = list_attributes(POLICY, all_of=True)
(_MAX,) = list_arguments("sweep_dead_letters")
_DESTINATION, _MAX_REDRIVEN = list_arguments("redrive_messages")

ROUTES = (
    Route(
        "GET", "/dead-letters", Scope.STATS, "List the dead-letter queues.", _list,
        ("list_queues",),
        result=DeadLetterQueuesJson,
    ),
    Route(
        "PUT", "/queues/{queue}/dead-letter-policy", Scope.MANAGE,
        "Set the policy that moves messages received too often.", _set_policy,
        ("set_dead_letter_policy",),
        body=_POLICY,
        result=QueueJson,
    ),
    Route(
        "GET", "/queues/{queue}/dead-letter-policy", Scope.STATS, "Read the policy.", _get_policy,
        ("get_queue_attributes",), result=_POLICY,
    ),
    Route(
        "DELETE", "/queues/{queue}/dead-letter-policy", Scope.MANAGE, "Remove the policy.",
        _remove_policy, ("set_dead_letter_policy",),
        result=QueueJson,
    ),
    Route(
        "POST", "/queues/{queue}:sweep", Scope.MANAGE,
        "Move messages that were received too often.", _sweep, ("sweep_dead_letters",),
        body=(_MAX,), result=(Field("ids", Shape.TEXTS, "The ids that were moved."), *SHOWN),
        answers=ANSWERS, is_long=True,
    ),
    Route(
        "POST", "/queues/{queue}:sweep-expired", Scope.MANAGE,
        "Remove expired messages, or move them to the dead-letter queue.", _sweep_expired,
        ("sweep_expired",), body=(_MAX,),
        result=(Field("ids", Shape.TEXTS, "The ids that were removed or moved."), *SHOWN),
        answers=ANSWERS, is_long=True,
    ),
    Route(
        "POST", "/queues/{queue}:sweep-groups", Scope.MANAGE,
        "Admit messages of groups whose last message another client has deleted.", _sweep_groups,
        ("sweep_groups",),
        result=(Field("admitted", Shape.WHOLE, "The number of messages that were admitted."),),
        is_long=True,
    ),
    Route(
        "POST", "/queues/{queue}:redrive", Scope.MANAGE,
        "Send dead letters again, with new ids.", _redrive, ("redrive_messages",),
        body=(
            _DESTINATION,
            Field("ids", Shape.TEXTS, "Only these; else those that are visible."),
            Field("receipts", Shape.TEXTS, "Only these, unless they were received again since."),
            _MAX_REDRIVEN,
            Field("rate", Shape.WHOLE, "Redrive all, as an operation with so many messages a "
            "second.", rule=between(1, MAX_RATE)),
            Field("filter", Shape.TEXT, "Redrive those that fit, as an operation; cause:KEY is a "
            "group of dead letters. It needs peek."),
            BEFORE,
        ),
        result=(Field("messages", Shape.OBJECTS, "The old and the new id of each."), *SHOWN),
        answers=ANSWERS, is_long=True,
    ),
)  # fmt: skip
