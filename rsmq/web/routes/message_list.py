"""
Operations that read messages without receiving them: lists, searches, single messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypedDict, TypeVar, cast, get_args

from rsmq.errors import InvalidFormat
from rsmq.explain import find_holders
from rsmq.model import State, StoredMessage
from rsmq.search.message_filter import SearchFilter, parse_filter
from rsmq.search.operations import SearchCandidate, SearchPosition
from rsmq.web.bodies import open_message
from rsmq.web.fields import Field, Refused, Shape, between
from rsmq.web.routes.forms import (
    QUEUE,
    StoredJson,
    check_number,
    make_position_cursor,
    message_gone,
    read_position,
    show_stored,
)
from rsmq.web.search import (
    BODY_BYTES,
    MessagePage,
    MessageQuery,
    read_message,
    read_page,
    walk_through,
)
from rsmq.web.send_fields import list_arguments
from rsmq.web.table import ApiAnswer, ApiCall, RawBody, Route, Scope
from rsmq.wire.limits import check_whole_number

T = TypeVar("T")

_MAX_BYTES = 512 * 1024 * 1024


class ListedMessageJson(StoredJson, total=False):
    """A message of a list."""

    holder: Annotated[str | None, "Its worker, if holders is true."]


class MessagesJson(TypedDict):
    """A part of the messages of a queue."""

    messages: Annotated[
        list[ListedMessageJson],
        "In the order in which they become visible, with the first 4,096 bytes of each body; "
        "truncated says whether there are more.",
    ]
    scanned: Annotated[int, "The messages that were looked at."]
    cursor: Annotated[
        str | None,
        "For the next page; null after the last. A page may have fewer messages than limit: a "
        "search ends after two seconds.",
    ]


async def _list(call: ApiCall) -> ApiAnswer[MessagesJson]:
    query = _read_query(call)
    start = check_number(_START, call)
    if start < 0:
        start = max(0, start + await _count(call, query.state))
    is_hidden = query.state not in {None, "visible"}
    position = SearchPosition(skip=start) if is_hidden else SearchPosition(rank=start)
    if "cursor" in call.values:
        position = read_position(call.values["cursor"])
    return await _answer(call, query, await read_page(call.queues, query, position))


def _read_query(call: ApiCall) -> MessageQuery:
    text = call.values.get("filter")
    return MessageQuery(
        call.names[QUEUE],
        check_state(call),
        SearchFilter() if text is None else parse_filter(text),
        check_number(_LIMIT, call),
        call.redaction,
    )


def check_state(call: ApiCall) -> State | None:
    """Return the field ``state``; raises InvalidFormat if it is none."""
    state: Any = call.values.get("state")
    if state is not None and state not in get_args(State):
        hint = f"It is one of {', '.join(get_args(State))}."
        raise InvalidFormat("state", value=state, hint=hint)
    checked: State | None = state
    return checked


async def _count(call: ApiCall, state: State | None) -> int:
    """Return the number of messages that positions from the end refer to."""
    name = call.names[QUEUE]
    if state is None or state == "visible":
        counts = await call.queues.get_queue_attributes(name)
        return counts.messages if state is None else counts.visible_messages
    return int(getattr(await call.queues.count_messages(name), state))


async def _answer(call: ApiCall, query: MessageQuery, page: MessagePage) -> ApiAnswer[MessagesJson]:
    def show(each: SearchCandidate) -> ListedMessageJson:
        shown = show_stored(each.message, query.redaction, size=each.size, max_bytes=BODY_BYTES)
        return cast("ListedMessageJson", shown)

    messages = await walk_through(
        [each.message.raw for each in page.found],
        len(query.redaction.paths),
        lambda: list(map(show, page.found)),
    )
    if call.values.get("holders"):
        holders = await find_holders(call.queues, [each.message for each in page.found])
        for each in messages:
            each["holder"] = holders.get(each["id"])
    cursor = make_position_cursor(page.next)
    return ApiAnswer({"messages": messages, "scanned": page.scanned, "cursor": cursor})


async def _get(call: ApiCall) -> ApiAnswer[StoredJson]:
    number = call.values.get("max_bytes")
    if number is None:
        whole = await _find(call)
        return ApiAnswer(await _redacted(call, whole, lambda: show_stored(whole, call.redaction)))
    max_bytes = check_whole_number("max_bytes", number, 0, _MAX_BYTES)
    name, id = call.names[QUEUE], call.names["id"]
    found = await read_message(call.queues, name, id, call.redaction, max_bytes)
    if found is None:
        raise await message_gone(call)
    stored, size = found.message, found.size
    return ApiAnswer(
        await _redacted(
            call,
            stored,
            lambda: show_stored(stored, call.redaction, size=size, max_bytes=max_bytes),
        )
    )


async def _redacted(call: ApiCall, message: StoredMessage[bytes], show: Callable[[], T]) -> T:
    return await walk_through([message.raw], len(call.redaction.paths), show)


async def _get_body(call: ApiCall) -> ApiAnswer:
    found = await _find(call)
    raw = await _redacted(call, found, lambda: call.redaction.body(found.raw))
    if raw is None:
        raise Refused(
            "redacted",
            "The body is withheld",
            status=403,
            hint="Values are redacted for this caller, and this is not a JSON object or list.",
        )
    return ApiAnswer(
        raw,
        headers={
            "Content-Type": "application/octet-stream",
            "Content-Disposition": "attachment",
            "Content-Security-Policy": "sandbox; default-src 'none'",
            **({} if raw == found.raw else {"Rsmq-Redacted": "true"}),
        },
    )


async def _find(call: ApiCall) -> Any:
    found = await call.queues.get_message(call.names[QUEUE], call.names["id"], codec=call.codec)
    if found is None:
        raise await message_gone(call)
    return open_message(found)


_START, _LIMIT, STATE = list_arguments("peek_messages")

ROUTES = (
    Route(
        "GET", "/queues/{queue}/messages", Scope.PEEK, "Read messages without receiving them.",
        _list, ("peek_messages",),
        query=(
            _START,
            _LIMIT,
            STATE,
            Field("filter", Shape.TEXT, "Only those that fit, such as json.country:DE rc>=3."),
            Field("cursor", Shape.TEXT, "The cursor of the page before."),
            Field(
                "holders", Shape.FLAG, "Whether to look up which worker has each one in flight; "
                "then it has holder, a name or null.",
            ),
        ),
        result=MessagesJson,
    ),
    Route(
        "GET", "/queues/{queue}/messages/{id}", Scope.PEEK, "Read a message.", _get,
        ("get_message",),
        query=(
            Field(
                "max_bytes", Shape.WHOLE, "Bytes of the body, at most; size is that of all of it.",
                rule=between(0, _MAX_BYTES),
            ),
        ),
        result=StoredJson,
    ),
    Route(
        "GET", "/queues/{queue}/messages/{id}/body", Scope.PEEK, "Read the bytes of a body.",
        _get_body, ("get_message",), result=RawBody(),
    ),
)  # fmt: skip
