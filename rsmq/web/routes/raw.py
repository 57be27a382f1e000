"""
Operations whose bodies are those of the messages: bytes in, bytes out, and the rest in headers.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from rsmq.model import Message
from rsmq.web.bodies import open_message
from rsmq.web.fields import Field, Shape
from rsmq.web.routes.forms import QUEUE, receipt_of, whole
from rsmq.web.routes.messages import OPTIONS, send_one
from rsmq.web.routes.receives import VT, WAIT, pop, receive
from rsmq.web.table import ApiAnswer, ApiCall, RawBody, Route, Scope

_NONE = {200: "a message", 204: "there is none"}


async def _send(call: ApiCall) -> ApiAnswer:
    id = await send_one(call, call.raw, dict(call.values))
    return ApiAnswer({"id": id}, 201, {"Rsmq-Id": id})


async def _receive(call: ApiCall) -> ApiAnswer:
    return _show(await receive(call, [call.names[QUEUE]], 1), has_receipt=True)


async def _pop(call: ApiCall) -> ApiAnswer:
    return _show(await pop(call, [call.names[QUEUE]], 1), has_receipt=False)


def _show(found: list[Message[Any]], *, has_receipt: bool) -> ApiAnswer:
    if not found:
        return ApiAnswer(status=204)
    message = open_message(found[0])
    headers = {
        "Content-Type": "application/octet-stream",
        "Rsmq-Id": _quote(message.id),
        "Rsmq-Receive-Count": str(message.receive_count),
    }
    if has_receipt:
        headers["Rsmq-Receipt"] = _quote(receipt_of(message))
    if message.sent_ms is not None:
        headers["Rsmq-Sent-Ms"] = str(whole(message.sent_ms))
    return ApiAnswer(message.raw, 200, headers, tuple(found) if has_receipt else ())


def _quote(id: str) -> str:
    """Return an id for a header: that of another client may have a line end or other letters."""
    return quote(id, safe=_SAFE, errors="surrogateescape")


_SAFE = "".join(map(chr, range(0x21, 0x7F))).replace("%", "")

ROUTES = (
    Route(
        "POST", "/queues/{queue}/raw", Scope.SEND, "Send the bytes of the request.", _send,
        ("send_message",), query=OPTIONS, body=RawBody(),
        answers={201: "sent, or sent before with this key"},
        result=(Field("id", Shape.TEXT, "The id of the message."),), idempotent=True,
    ),
    Route(
        "POST", "/queues/{queue}/raw:receive", Scope.RECEIVE,
        "Receive a message, whose body is that of the answer.", _receive, ("receive_message",),
        query=(VT, WAIT), answers=_NONE, result=RawBody(),
    ),
    Route(
        "POST", "/queues/{queue}/raw:pop", Scope.RECEIVE,
        "Receive a message and delete it at once.", _pop, ("pop_message",), query=(WAIT,),
        answers=_NONE, result=RawBody(),
    ),
)  # fmt: skip
