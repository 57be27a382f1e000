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
from collections.abc import Mapping

from rsmq.errors import RSMQError
from rsmq.web.access.gate import (
    ADDRESS,
    HEADERS,
    IS_SECURE,
    PRINCIPAL,
    Receive,
    Send,
    check_referer,
)
from rsmq.web.access.gate import Scope as AsgiScope
from rsmq.web.access.principals import Principal
from rsmq.web.audit import AuditEntry, facts_of
from rsmq.web.client import Client
from rsmq.web.delivery import (
    ClientLeft,
    Departure,
    check_presence,
    release,
    release_if_unread,
    send_whole,
)
from rsmq.web.fields import Refused
from rsmq.web.liveness import client_for_long_call
from rsmq.web.problems import describe, send_problem
from rsmq.web.requests import path_of, read_bytes
from rsmq.web.rest_rsmq.bodies import (
    MAX_BODY_BYTES,
    Page,
    decode_percent,
    read_body,
    read_query,
    too_long,
)
from rsmq.web.rest_rsmq.routes import ROUTES, Handler, NodeRequest, NodeResult
from rsmq.web.rest_rsmq.values import NodeError, check_name
from rsmq.web.table import Scope

_JSON, _HTML = "application/json; charset=utf-8", "text/html; charset=utf-8"
_UNAVAILABLE = 503


class RestRsmq:
    """The eight routes, on a client."""

    def __init__(self, queues: Client, *, read_only: bool) -> None:
        self._queues = queues
        self._read_only = read_only

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        departure = Departure(receive, scope)
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
        method, headers = scope["method"], scope[HEADERS]
        handlers, parts = _find(scope)
        found = handlers.get("GET" if method == "HEAD" else method)
        principal: Principal = scope[PRINCIPAL]
        names = tuple(decode_percent(each) or "" for each in parts)
        if found is not None:
            if method == "GET" and found[0] is Scope.RECEIVE:
                check_referer(headers, is_secure=scope[IS_SECURE])
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
        request = NodeRequest(names, body, query)
        if method == "HEAD" and needed is Scope.RECEIVE:
            await self._queues.get_queue_attributes(check_name(names[0]))
            result = NodeResult({})
        elif needed in {Scope.MANAGE, Scope.DESTROY}:
            call = f"{method} /rest-rsmq/queues/{{queue}}"
            facts = facts_of(principal.name, scope[ADDRESS], call, {"queue": names[0]}, {})
            entry = AuditEntry(self._queues, facts, is_destroying=needed is Scope.DESTROY)
            # Deleting a queue takes longer the more messages it has.
            is_long = needed is Scope.DESTROY
            queues = await client_for_long_call(self._queues) if is_long else self._queues
            result = await entry.record(handler(queues, request), lambda _: {"outcome": "200"})
        else:
            result = await handler(self._queues, request)
        if names == () and self._restricts(principal):
            result = NodeResult({"queues": self._visible(principal, result.content["queues"])})
        answer = json.dumps(result.content, indent=2, ensure_ascii=False).encode(
            errors="surrogatepass"
        )
        await check_presence(self._queues, result.messages, departure)
        release_if_unread(scope, self._queues, result.messages)
        try:
            await _send_answer(scope, send, 200, _JSON, answer, asked=headers)
        except OSError:
            await release(self._queues, result.messages)
            raise ClientLeft from None

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
        else:
            receives = path_of(scope).lower().startswith("/messages/")
            is_read = scope["method"] == "HEAD" or (scope["method"] == "GET" and not receives)
            problem = describe(error, may_repeat=is_read)
            if not isinstance(error, RSMQError) or problem.status == _UNAVAILABLE:
                await send_problem(send, problem)
                return
            name, text = error.code, error.text
        body = json.dumps({"name": name, "message": text}, indent=2).encode()
        await _send_answer(scope, send, 500, _JSON, body)


def _find(
    scope: AsgiScope,
) -> tuple[Mapping[str, tuple[Scope, Handler]], tuple[str, ...]]:
    """Return the handlers of a path, and its names, percent-encoded; none for unknown paths."""
    first, *names = path_of(scope).removeprefix("/").removesuffix("/").split("/")
    handlers = ROUTES.get((first.lower(), len(names)), {}) if all(names) else {}
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
    await send_whole(scope, send, start, b"" if scope["method"] == "HEAD" else body)


def _is_fresh(asked: Mapping[str, str], etag: str) -> bool:
    """Return whether the client has this answer; none here has a time of its last change."""
    if "no-cache" in asked.get("cache-control", "") or asked.get("if-modified-since"):
        return False
    tags = [each.strip(" ") for each in asked.get("if-none-match", "").split(",")]
    return not {"*", etag, f"W/{etag}"}.isdisjoint(tags)
