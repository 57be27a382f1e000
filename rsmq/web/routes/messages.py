"""
Operations that send and change messages.
"""

from __future__ import annotations

import json
from typing import Any

from rsmq.errors import MessageTooLong, RSMQError
from rsmq.operations.arguments import encode_body
from rsmq.vocabulary.sends import PUBLISH, SEND
from rsmq.web.bodies import BODIES, with_references
from rsmq.web.bulk.records import OperationKind
from rsmq.web.fields import BODY_FIELDS, Field, ItemRefused, Refused, Shape, read_body, read_object
from rsmq.web.idempotency import HEADER, WINDOW_SECONDS, KeyClaim, batch_dedup_ids
from rsmq.web.routes.bulk import ANSWERS, FILTER, SHOWN, begin_filtered, is_filtered
from rsmq.web.routes.destinations import CREATE_DESTINATION, create_destination
from rsmq.web.routes.forms import CHOICE, QUEUE, choose, choose_one, message_gone, raise_unchanged
from rsmq.web.routes.selections import DONE, SELECTION, SHOWN_AS, act_on_selection, is_selected
from rsmq.web.routes.undo import UNDO, UNDO_RESULT, show_deletion
from rsmq.web.selection.changes import SelectionAction
from rsmq.web.send_fields import list_arguments, list_fields
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope
from rsmq.wire.limits import check_label

_SEND_OPTIONS = list_fields(SEND, of_message=False)
_KEYS = list_fields(SEND, of_message=True)
_PUBLISH_OPTIONS = list_fields(PUBLISH)
#: The options of a send, which a raw send has in its query.
OPTIONS = (*_SEND_OPTIONS, *_KEYS)
_MESSAGE = (*BODY_FIELDS, *_KEYS)
_ID = Field("id", Shape.TEXT, "The id of the message.")
_IDS = (Field("ids", Shape.TEXTS, "The ids of the messages that were changed."),)
_NEW_VT = list_arguments("change_message_visibility")


async def send_one(call: ApiCall, body: str | bytes, options: dict[str, Any]) -> str:
    """Send a message, once for each Idempotency-Key, and return its id."""
    queue, key = call.names[QUEUE], call.headers.get(HEADER)
    if key is not None:
        if "dedup_id" in options:
            raise Refused("invalidFormat", "Pass one of Idempotency-Key and dedup_id")
        claim = KeyClaim(call.queues, queue, key, key, [_raw(body), _digestible(options)])
        window = options.setdefault("dedup_window", WINDOW_SECONDS)
        sending = call.queues.send_message(queue, body, **options, dedup_id=key, codec=call.codec)
        return await claim.send(window, sending)
    return await call.queues.send_message(queue, body, **options, codec=call.codec)


def _raw(body: str | bytes) -> bytes:
    return body.encode(errors="surrogatepass") if isinstance(body, str) else body


def _digestible(options: dict[str, Any]) -> bytes:
    return json.dumps(options, sort_keys=True, default=str).encode()


async def _send(call: ApiCall) -> ApiAnswer:
    bodies = {each.name for each in BODY_FIELDS}
    options = {name: value for name, value in call.values.items() if name not in bodies}
    return ApiAnswer({"id": await send_one(call, read_body(call.values), options)}, 201)


async def _send_batch(call: ApiCall) -> ApiAnswer:
    queue, key = call.names[QUEUE], call.headers.get(HEADER)
    options = dict(call.values)
    read, bodies = _read_batch(options.pop("messages"))
    lists = {option.name: [each.get(option.name) for each in read] for option in _KEYS}
    claim, window = None, options.get("dedup_window", WINDOW_SECONDS)
    if key is not None:
        if any(each is not None for each in lists["dedup_id"]):
            raise Refused("invalidFormat", "Pass one of Idempotency-Key and dedup_id")
        facts = {**call.values, "messages": lists["unique_key"]}
        facts |= {
            f"{name}s": values
            for name, values in lists.items()
            if name not in {"dedup_id", "unique_key"} and _or_none(values)
        }
        dedup_ids = lists["dedup_id"] = [*batch_dedup_ids(key, len(bodies))]
        parts = [*map(_raw, bodies), _digestible(facts)]
        first = dedup_ids[0] if dedup_ids else None
        claim = KeyClaim(call.queues, queue, key, first or key, parts)
        options["dedup_window"] = window
    options |= {f"{name}s": _or_none(values) for name, values in lists.items()}
    sending = call.queues.send_messages(queue, bodies, **options, codec=call.codec)
    try:
        ids = await (sending if claim is None else claim.send(window, sending))
    except MessageTooLong as error:
        sizes = [encode_body(each, BODIES)[1] for each in bodies]
        if error.value not in sizes:
            raise
        raise ItemRefused(sizes.index(error.value), error) from None
    return ApiAnswer({"ids": ids}, 201)


def _read_batch(contents: list[Any]) -> tuple[list[dict[str, Any]], list[str | bytes]]:
    """
    Return the fields of the messages of a batch, and their bodies.

    Raises:
        ItemRefused: one of them is not valid.
    """
    read, bodies = [], []
    for index, content in enumerate(contents):
        try:
            values = read_object(content, _MESSAGE)
            body = read_body(values)
            encode_body(body, BODIES)
            for option in _KEYS:
                if option.name in values:
                    check_label(option.name, values[option.name])
        except (Refused, RSMQError) as error:
            raise ItemRefused(index, error) from None
        read.append(values)
        bodies.append(body)
    return read, bodies


def _or_none(values: list[str | None]) -> list[str | None] | None:
    return None if values and all(each is None for each in values) else values


async def _publish(call: ApiCall) -> ApiAnswer:
    names = call.values["queues"]
    for name in names:
        call.allow(Scope.SEND, name)
    options = {
        each.name: call.values[each.name] for each in _PUBLISH_OPTIONS if each.name in call.values
    }
    ids = await call.queues.publish(names, read_body(call.values), **options, codec=call.codec)
    return ApiAnswer({"ids": ids}, 201)


async def _delete(call: ApiCall) -> ApiAnswer:
    if call.values.get("undo"):
        if "receipt" in call.values:
            raise Refused("invalidFormat", _UNDO_RULE)
        queue, id = choose_one(call)
        deletion = await call.queues.trash.delete_messages(queue, [id], by=call.caller)
        if not deletion.id:
            raise await message_gone(call)
        return ApiAnswer({"undo": show_deletion(deletion)})
    chosen = choose_one(call)
    if "receipt" in call.values:
        chosen = tuple(await with_references(call.queues, [*chosen]))
    if not await call.queues.delete_message(*chosen):
        await raise_unchanged(call)
    return ApiAnswer(status=204)


async def _change(call: ApiCall) -> ApiAnswer:
    queues: Any = call.queues
    if not await queues.change_message_visibility(*choose_one(call), call.values["vt"]):
        await raise_unchanged(call)
    return ApiAnswer(status=204)


async def _delete_many(call: ApiCall) -> ApiAnswer:
    if is_selected(call):
        return await act_on_selection(call, SelectionAction.DELETE)
    if is_filtered(call):
        return await begin_filtered(call, OperationKind.DELETE)
    if call.values.get("undo"):
        if "receipts" in call.values:
            raise Refused("invalidFormat", _UNDO_RULE)
        deletion = await call.queues.trash.delete_messages(*choose(call), by=call.caller)
        return ApiAnswer({"ids": list(deletion.message_ids), "undo": show_deletion(deletion)})
    first, *ids = choose(call)
    if not ids:
        first = await with_references(call.queues, first)
    return ApiAnswer({"ids": await call.queues.delete_messages(first, *ids), "undo": None})


async def _change_many(call: ApiCall) -> ApiAnswer:
    queues: Any = call.queues
    ids = await queues.change_messages_visibility(*choose(call), call.values["vt"])
    return ApiAnswer({"ids": ids})


async def _release_many(call: ApiCall) -> ApiAnswer:
    if is_selected(call):
        return await act_on_selection(call, SelectionAction.RELEASE)
    if is_filtered(call):
        return await begin_filtered(call, OperationKind.RELEASE)
    return ApiAnswer({"ids": await call.queues.release_messages(*choose(call))})


async def _move_many(call: ApiCall) -> ApiAnswer:
    if is_selected(call):
        return await act_on_selection(call, SelectionAction.MOVE)
    destination = call.values["destination"]
    if is_filtered(call):
        return await begin_filtered(call, OperationKind.MOVE)
    first, *ids = choose(call)
    call.allow(Scope.SEND, destination)
    await create_destination(call)
    return ApiAnswer({"ids": await call.queues.move_messages(first, destination, *ids)})


_UNDO_RULE = "A consumer that deletes by receipt has finished: there is no undo"
_OF_PATH = (Field("receipt", Shape.TEXT, "Its receipt; without one it needs the scope manage."),)
_BATCH = Field(
    "messages", Shape.OBJECTS, "At most 10,000 messages and 16 MiB.", required=True, items=_MESSAGE
)
_QUEUES = Field("queues", Shape.TEXTS, "The names of the queues.", required=True)
_SENT = {201: "sent, or sent before with this key"}

ROUTES = (
    Route(
        "POST", "/queues/{queue}/messages", Scope.SEND, "Send a message.", _send,
        ("send_message",), body=(*BODY_FIELDS, *OPTIONS), answers=_SENT, result=(_ID,),
        idempotent=True,
    ),
    Route(
        "POST", "/queues/{queue}/messages:batch", Scope.SEND, "Send messages, all or none.",
        _send_batch, ("send_messages",), body=(_BATCH, *_SEND_OPTIONS), answers=_SENT,
        result=(Field("ids", Shape.TEXTS, "The ids, in order."),), idempotent=True,
    ),
    Route(
        "POST", "/publish", Scope.SEND, "Send a message to several queues, all or none.",
        _publish, ("publish",), body=(_QUEUES, *BODY_FIELDS, *_PUBLISH_OPTIONS),
        answers={201: "sent"},
        result=(Field("ids", Shape.OBJECT, "The id in each queue."),),
    ),
    Route(
        "DELETE", "/queues/{queue}/messages/{id}", Scope.RECEIVE, "Delete a message.", _delete,
        ("delete_message", "trash.delete_messages"), query=(*_OF_PATH, UNDO),
        answers={204: "deleted", 200: "deleted, and it can be undone"}, result=(UNDO_RESULT,),
    ),
    Route(
        "PATCH", "/queues/{queue}/messages/{id}", Scope.RECEIVE,
        "Hide a message for a time from now, or show it with 0.", _change,
        ("change_message_visibility",), query=_OF_PATH, body=_NEW_VT, answers={204: "changed"},
    ),
    Route(
        "POST", "/queues/{queue}/messages:delete", Scope.RECEIVE, "Delete messages.",
        _delete_many, ("delete_messages", "trash.delete_messages"),
        body=(*CHOICE, *FILTER, SELECTION, *SHOWN_AS, UNDO), answers=ANSWERS,
        result=(*_IDS, UNDO_RESULT, *DONE, *SHOWN),
    ),
    Route(
        "POST", "/queues/{queue}/messages:visibility", Scope.RECEIVE,
        "Hide messages for a time from now.", _change_many, ("change_messages_visibility",),
        body=(*CHOICE, *_NEW_VT), result=_IDS,
    ),
    Route(
        "POST", "/queues/{queue}/messages:release", Scope.RECEIVE,
        "Make messages visible again, in their old places.", _release_many,
        ("release_messages",), body=(*CHOICE, *FILTER, SELECTION, *SHOWN_AS),
        result=(*_IDS, *SHOWN, *DONE), answers=ANSWERS,
    ),
    Route(
        "POST", "/queues/{queue}/messages:move", Scope.RECEIVE, "Move messages to another queue.",
        _move_many, ("move_messages",),
        body=(*CHOICE, *FILTER, SELECTION, *SHOWN_AS, *list_arguments("move_messages"),
              CREATE_DESTINATION),
        result=(*_IDS, *DONE, *SHOWN),
        answers=ANSWERS,
    ),
)  # fmt: skip
