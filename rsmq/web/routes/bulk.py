"""
Operations of many messages: they answer 202, and continue until they end.
"""

from __future__ import annotations

from typing import Annotated, Any, TypedDict, get_args

from rsmq.errors import InvalidFormat
from rsmq.model import State
from rsmq.search.message_filter import parse_filter
from rsmq.web.answers import fields_of
from rsmq.web.bulk.manager import OperationEvent, OperationManager, OperationRequest
from rsmq.web.bulk.records import OperationKind, OperationRecord, OperationState
from rsmq.web.fields import Field, Refused, Shape, one_of
from rsmq.web.routes.destinations import create_destination
from rsmq.web.routes.forms import QUEUE, may, show_as
from rsmq.web.table import ApiAnswer, ApiCall, Handler, Route, Scope

#: The answer of a call that may become an operation.
ANSWERS = {200: "done", 202: "an operation has begun, at the path in Location"}
BEFORE = Field(
    "before_ms", Shape.WHOLE, "Unix ms: an operation touches no message that came later."
)
SKIP_IN_FLIGHT = Field("skip_in_flight", Shape.FLAG, "With filter: leave out those in flight.")
FILTER = (
    Field("state", Shape.TEXT, "With filter: only in this state.", rule=one_of(*get_args(State))),
    Field(
        "filter", Shape.TEXT,
        "Instead: all that were sent before now and fit, as an operation. It needs manage and "
        "peek.",
    ),
    BEFORE,
    SKIP_IN_FLIGHT,
)  # fmt: skip


class OperationJson(TypedDict):
    """An operation of many messages."""

    operation: Annotated[str, "The id of the operation."]
    kind: Annotated[str, "Its action.", one_of(*(each.value for each in OperationKind))]
    queue: Annotated[str, "Its queue."]
    arguments: Annotated[dict[str, Any], "Those of the call that began it."]
    state: Annotated[str, "Its state.", one_of(*(each.value for each in OperationState))]
    done: Annotated[int, "Messages that it has changed."]
    scanned: Annotated[int, "Messages that it has looked at."]
    left: Annotated[int, "Dead letters whose queue is gone."]
    total: Annotated[int, "Messages of the queue when it began."]
    rate: Annotated[float | None, "Messages that it looks at in a second."]
    remaining_seconds: Annotated[float | None, "The time until its end, by its rate."]
    begun_ms: Annotated[int, "Unix ms of its begin."]
    ended_ms: Annotated[int | None, "Unix ms of its end."]
    error: Annotated[str | None, "The code of the error with which it failed."]
    creator: Annotated[str, "The caller who began it."]


class OperationsJson(TypedDict):
    """The operations of many messages."""

    operations: Annotated[
        list[OperationJson],
        "Those that are not ended, and at least the last 1,000 of the last 7 days.",
    ]


#: The fields of an operation, for calls that may begin one.
SHOWN = fields_of(OperationJson)


def prefers_async(call: ApiCall, *of_parts: str) -> bool:
    """
    Return whether the caller wants an operation.

    Args:
        of_parts: fields that a call for a part of the messages has; such a call is never one.
    """
    preferences = call.headers.get("prefer", "").lower().split(",")
    wants = any(each.partition(";")[0].strip() == "respond-async" for each in preferences)
    return wants and not any(each in call.values for each in of_parts)


def refuse_with(call: ApiCall, first: str, *others: str) -> None:
    """Raise Refused if the call has one of the other fields."""
    for each in others:
        if each in call.values:
            raise Refused("invalidFormat", f"Pass one of {first} and {each}")


async def begin(call: ApiCall, request: OperationRequest) -> ApiAnswer:
    """Store an operation, and answer 202."""
    request.check_rights(call.allow, call.redaction)
    await create_destination(call)
    manager = OperationManager(call.queues)
    record = await manager.begin(request, creator=call.caller, address=call.address)
    return ApiAnswer(_show(call, record), 202, {"Location": f"/operations/{record.id}"})


def is_filtered(call: ApiCall) -> bool:
    """Return whether a call is for the messages that fit a filter."""
    if "filter" not in call.values:
        for each in ("state", "before_ms", "skip_in_flight"):
            if each in call.values:
                raise Refused("missingParameter", f"{each} needs filter, which may be empty")
        return False
    return True


async def begin_filtered(call: ApiCall, kind: OperationKind) -> ApiAnswer:
    """Begin an operation on the messages that fit the field ``filter``."""
    refuse_with(call, "filter", "receipts", "ids")
    values = call.values
    return await begin(
        call,
        OperationRequest(
            kind,
            call.names[QUEUE],
            destination=values.get("destination"),
            filter=values["filter"],
            state=values.get("state"),
            undo=values.get("undo", False),
            before_ms=values.get("before_ms"),
            skip_in_flight=values.get("skip_in_flight") or None,
        ),
    )


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 1)


def _looks_at_bodies(filter: str) -> bool:
    """Return whether a stored filter has a term of bodies; also if it is not valid."""
    try:
        terms = parse_filter(filter).terms
    except InvalidFormat:
        return True
    return any(term.field in {"body", "json"} for term in terms)


def _show(call: ApiCall, record: OperationRecord) -> OperationJson:
    arguments = dict(record.arguments)
    # A filter may quote a body, also values that are redacted for the caller.
    is_shown = may(call, Scope.PEEK, record.queue)
    if not is_shown or (call.redaction and _looks_at_bodies(arguments.get("filter", ""))):
        arguments.pop("filter", None)
    destination = arguments.get("destination")
    if destination is not None and not may(call, Scope.STATS, destination):
        del arguments["destination"]
    return show_as(
        OperationJson, record, operation=record.id, arguments=arguments, rate=_rounded(record.rate),
        remaining_seconds=_rounded(record.remaining_seconds),
    )  # fmt: skip


async def _find(call: ApiCall, scope: Scope) -> tuple[OperationManager, OperationRecord]:
    manager = OperationManager(call.queues)
    record = await manager.read(call.names["operation"])
    call.allow(scope, record.queue)
    return manager, record


async def _get(call: ApiCall) -> ApiAnswer:
    _, record = await _find(call, Scope.STATS)
    return ApiAnswer(_show(call, record))


async def _list(call: ApiCall) -> ApiAnswer[OperationsJson]:
    found = await OperationManager(call.queues).list()
    shown = [_show(call, each) for each in found if may(call, Scope.STATS, each.queue)]
    return ApiAnswer({"operations": shown})


def _change(event: OperationEvent) -> Handler:
    async def change(call: ApiCall) -> ApiAnswer:
        manager, record = await _find(call, Scope.MANAGE)
        return ApiAnswer(_show(call, await manager.change(record, event)))

    return change


ROUTES = (
    Route(
        "GET", "/operations", Scope.STATS,
        "List the operations of many messages, the last first.", _list,
        result=OperationsJson,
    ),
    Route(
        "GET", "/operations/{operation}", Scope.STATS, "Read an operation.", _get,
        result=OperationJson,
    ),
    Route(
        "POST", "/operations/{operation}:cancel", Scope.MANAGE,
        "Cancel an operation; its finished part stays.", _change("cancel"), result=OperationJson,
    ),
    Route(
        "POST", "/operations/{operation}:pause", Scope.MANAGE, "Pause an operation.",
        _change("pause"), result=OperationJson,
    ),
    Route(
        "POST", "/operations/{operation}:resume", Scope.MANAGE, "Resume a paused operation.",
        _change("resume"), result=OperationJson,
    ),
)  # fmt: skip
