"""
The routes of rest-rsmq as an ASGI application.

It answers as rest-rsmq 0.4.1 does, with these exceptions, which docs/from-rest-rsmq.md lists: HEAD
does not receive, the pages for invalid JSON name no files of the server, and queues are in order.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from rsmq.errors import RSMQError
from rsmq.web.access.gate import PRINCIPAL, Receive, Send, send_problem
from rsmq.web.access.gate import Scope as AsgiScope
from rsmq.web.access.principals import Principal
from rsmq.web.audit import AuditEntry, facts_of
from rsmq.web.delivery import ClientLeft, Departure, check_presence, release, release_if_unread
from rsmq.web.fields import Refused
from rsmq.web.patience import PatientClient
from rsmq.web.problems import describe
from rsmq.web.requests import headers_of, path_of, read_bytes
from rsmq.web.rest_rsmq.bodies import (
    MAX_BODY_BYTES,
    Page,
    decode_percent,
    read_body,
    read_query,
    too_long,
)
from rsmq.web.rest_rsmq.values import (
    NodeError,
    check_id,
    check_name,
    read_seconds,
    read_size,
    require_seconds,
)
from rsmq.web.routes.forms import BODIES
from rsmq.web.table import Client, Scope
from rsmq.wire.fields import TOTAL_RECEIVED, TOTAL_SENT

_JSON, _HTML = "application/json; charset=utf-8", "text/html; charset=utf-8"
_VT, _DELAY, _MAXSIZE = 30, 0, 65_536
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class _NodeRequest:
    """
    Attributes:
        body: the fields of the body; empty without one.
        query: the fields of the query.
    """

    names: tuple[str, ...]
    body: Mapping[str, Any]
    query: Mapping[str, Any]

    def either(self, name: str) -> Any:
        """Return a field of the body, or else of the query."""
        value = self.body.get(name)
        return self.query.get(name) if value is None else value


@dataclass(frozen=True, slots=True)
class _Result:
    """The content of an answer, and the messages that it hands over."""

    content: Any
    messages: tuple[Any, ...] = ()


_Handler = Callable[[Client, _NodeRequest], Coroutine[Any, Any, _Result]]


async def _list(queues: Client, _: _NodeRequest) -> _Result:
    return _Result({"queues": await queues.list_queues()})


async def _attributes(queues: Client, request: _NodeRequest) -> _Result:
    found = await queues.get_queue_attributes(check_name(request.names[0]))
    return _Result(
        {
            "vt": found.vt,
            "delay": found.delay,
            "maxsize": found.maxsize,
            TOTAL_RECEIVED: found.total_received,
            TOTAL_SENT: found.total_sent,
            "created": found.created and int(found.created.timestamp()),
            "modified": found.modified and int(found.modified.timestamp()),
            "msgs": found.messages,
            "hiddenmsgs": found.hidden_messages,
        }
    )


async def _create(queues: Client, request: _NodeRequest) -> _Result:
    name = check_name(request.names[0])
    vt = read_seconds("vt", request.body.get("vt"), _VT)
    delay = read_seconds("delay", request.body.get("delay"), _DELAY)
    maxsize = read_size(request.body.get("maxsize"), _MAXSIZE)
    await queues.create_queue(name, vt=vt or 0, delay=delay or 0, maxsize=maxsize)
    return _Result({"result": 1})


async def _delete_queue(queues: Client, request: _NodeRequest) -> _Result:
    await queues.delete_queue(check_name(request.names[0]))
    return _Result({"result": 1})


async def _send(queues: Client, request: _NodeRequest) -> _Result:
    name = check_name(request.names[0])
    message, delay = request.body.get("message"), request.body.get("delay")
    # The original looks for the queue before it checks the values.
    if delay is not None or not isinstance(message, str):
        await queues.get_queue_attributes(name)
    seconds = read_seconds("delay", delay, None)
    if not isinstance(message, str):
        raise NodeError("messageNotString", "Message must be a string")
    text = _LONE_SURROGATE.sub("\ufffd", message)
    return _Result({"id": await queues.send_message(name, text, delay=seconds, codec=BODIES)})


async def _receive(queues: Client, request: _NodeRequest) -> _Result:
    name, vt = check_name(request.names[0]), request.either("vt")
    if vt is not None:
        await queues.get_queue_attributes(name)
    found = await queues.receive_message(name, vt=read_seconds("vt", vt, None), codec=BODIES)
    if found is None:
        return _Result({})
    return _Result(
        {
            "id": found.id,
            "message": found.raw.decode(errors="replace"),
            "rc": found.receive_count,
            "fr": found.first_received_ms,
            "sent": None if found.sent_ms is None else int(found.sent_ms),
        },
        (found,),
    )


async def _change(queues: Client, request: _NodeRequest) -> _Result:
    name, id = check_name(request.names[0]), check_id(request.names[1])
    seconds = require_seconds("vt", request.either("vt"))
    return _Result({"result": int(await queues.change_message_visibility(name, id, seconds))})


async def _delete(queues: Client, request: _NodeRequest) -> _Result:
    name, id = check_name(request.names[0]), check_id(request.names[1])
    return _Result({"result": int(await queues.delete_message(name, id))})


#: By the first part of the path, and the number of parts after it. Its documentation has
#: ``message`` for some routes, which the original does not accept.
_ROUTES: dict[tuple[str, int], dict[str, tuple[Scope, _Handler]]] = {
    ("queues", 0): {"GET": (Scope.STATS, _list)},
    ("queues", 1): {
        "GET": (Scope.STATS, _attributes),
        "POST": (Scope.MANAGE, _create),
        "DELETE": (Scope.DESTROY, _delete_queue),
    },
    ("messages", 1): {"POST": (Scope.SEND, _send), "GET": (Scope.RECEIVE, _receive)},
    ("messages", 2): {"PUT": (Scope.RECEIVE, _change), "DELETE": (Scope.RECEIVE, _delete)},
    ("message", 2): {"PUT": (Scope.RECEIVE, _change), "DELETE": (Scope.RECEIVE, _delete)},
}


class RestRsmq:
    """The eight routes, on a client."""

    def __init__(self, queues: Client, *, read_only: bool) -> None:
        self._queues = queues
        self._patient = PatientClient(queues)
        self._read_only = read_only

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        departure = Departure(receive)
        try:
            await self._answer(scope, receive, send, departure)
        except Page as page:
            await _send_answer(scope, send, page.status, _HTML, page.text.encode())
        except ClientLeft:
            return
        except Exception as error:  # noqa: BLE001 - each error has an answer
            await self._answer_error(scope, send, error)
        finally:
            departure.end()

    async def _answer(
        self, scope: AsgiScope, receive: Receive, send: Send, departure: Departure
    ) -> None:
        method, headers = scope["method"], headers_of(scope)
        handlers, parts = _find(scope)
        found = handlers.get("GET" if method == "HEAD" else method)
        principal: Principal = scope[PRINCIPAL]
        names = tuple(decode_percent(each) or "" for each in parts)
        if found is not None:
            principal.check(found[0], names[0] if names else None, read_only=self._read_only)
        # The original reads the body before it looks at the path.
        try:
            content = await read_bytes(receive, headers, MAX_BODY_BYTES)
        except Refused:
            raise too_long() from None
        body = read_body(headers, content)
        if found is None and not (handlers and method == "OPTIONS"):
            raise _cannot(scope)
        _check_percents(parts)
        if found is None:
            allowed = ",".join(sorted({*handlers, *({"HEAD"} if "GET" in handlers else ())}))
            await _send_answer(scope, send, 200, _JSON, allowed.encode(), more={"Allow": allowed})
            return
        needed, handler = found
        query = read_query(scope["query_string"].decode("latin-1"))
        request = _NodeRequest(names, body, query)
        if method == "HEAD" and needed is Scope.RECEIVE:
            await self._queues.get_queue_attributes(check_name(names[0]))
            result = _Result({})
        elif needed in {Scope.MANAGE, Scope.DESTROY}:
            call = f"{method} /rest-rsmq/queues/{{queue}}"
            facts = facts_of(scope, principal.name, call, {"queue": names[0]}, {})
            entry = AuditEntry(self._queues, facts, is_destroying=needed is Scope.DESTROY)
            # Deleting a queue takes longer the more messages it has.
            is_long = needed is Scope.DESTROY
            queues = await self._patient.client() if is_long else self._queues
            result = await entry.record(handler(queues, request), lambda _: "200")
        else:
            result = await handler(self._queues, request)
        if names == () and self._restricts(principal):
            result = _Result({"queues": self._visible(principal, result.content["queues"])})
        answer = json.dumps(result.content, indent=2, ensure_ascii=False).encode(
            errors="surrogatepass"
        )
        await check_presence(self._queues, result.messages, departure)
        try:
            await _send_answer(scope, send, 200, _JSON, answer, asked=headers)
        except OSError:
            await release(self._queues, result.messages)
            raise ClientLeft from None
        release_if_unread(scope, self._queues, result.messages)

    @staticmethod
    def _restricts(principal: Principal) -> bool:
        return "*" not in principal.patterns

    @staticmethod
    def _visible(principal: Principal, names: list[str]) -> list[str]:
        visible = []
        for name in names:
            try:
                principal.check(Scope.STATS, name, read_only=False)
            except Refused:
                continue
            visible.append(name)
        return visible

    async def _answer_error(self, scope: AsgiScope, send: Send, error: Exception) -> None:
        if isinstance(error, NodeError):
            name, text = error.name, str(error)
        elif isinstance(error, RSMQError):
            name, text = error.code, error.text
        else:
            receives = path_of(scope).lower().startswith("/messages/")
            is_read = scope["method"] == "HEAD" or (scope["method"] == "GET" and not receives)
            await send_problem(send, describe(error, may_repeat=is_read))
            return
        body = json.dumps({"name": name, "message": text}, indent=2).encode()
        await _send_answer(scope, send, 500, _JSON, body)


def _find(
    scope: AsgiScope,
) -> tuple[Mapping[str, tuple[Scope, _Handler]], tuple[str, ...]]:
    """Return the handlers of a path, and its names, percent-encoded; none for unknown paths."""
    first, *names = path_of(scope).removeprefix("/").removesuffix("/").split("/")
    handlers = _ROUTES.get((first.lower(), len(names)), {}) if all(names) else {}
    return handlers, tuple(names)


def _check_percents(parts: tuple[str, ...]) -> None:
    for part in parts:
        if decode_percent(part) is None:
            raise Page(400, f"Error: Failed to decode param &#39;{_escape(part)}&#39;")


def _cannot(scope: AsgiScope) -> Page:
    query = scope["query_string"].decode("latin-1")
    path = path_of(scope) + (f"?{query}" if query else "")
    return Page(404, f"Cannot {_escape(scope['method'])} {_escape(path)}\n")


def _escape(text: str) -> str:
    return html.escape(text).replace("&#x27;", "&#39;")


async def _send_answer(
    scope: AsgiScope,
    send: Send,
    status: int,
    media_type: str,
    body: bytes,
    *,
    more: Mapping[str, str] | None = None,
    asked: Mapping[str, str] | None = None,
) -> None:
    headers = {"Content-Type": media_type, "Content-Length": str(len(body)), **(more or {})}
    headers["X-Content-Type-Options"] = "nosniff"
    if status == 200 and scope["method"] in {"GET", "HEAD"}:  # noqa: PLR2004 - OK
        digest = base64.b64encode(hashlib.sha1(body, usedforsecurity=False).digest()).decode()
        headers["ETag"] = f'W/"{len(body):x}-{digest[:27]}"'
        if _is_fresh(asked or {}, headers["ETag"]):
            status, body = 304, b""
            del headers["Content-Type"], headers["Content-Length"]
    start = {
        "type": "http.response.start",
        "status": status,
        "headers": [(k.encode("latin-1"), v.encode("latin-1")) for k, v in headers.items()],
    }
    await send(start)
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def _is_fresh(asked: Mapping[str, str], etag: str) -> bool:
    """Return whether the client has this answer; none here has a time of its last change."""
    if "no-cache" in asked.get("cache-control", "") or asked.get("if-modified-since"):
        return False
    tags = re.split(" *, *", asked.get("if-none-match", ""))
    return not {"*", etag, f"W/{etag}"}.isdisjoint(tags)
