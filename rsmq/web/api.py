"""
The API as an ASGI application: finds the entry, calls its handler, and sends the answer.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing, suppress
from typing import Any

from rsmq.guarded_log import get_logger
from rsmq.search.json_path import JsonPath
from rsmq.web.access.gate import (
    ADDRESS,
    ADMIT_AGAIN,
    HEADERS,
    PRINCIPAL,
    Receive,
    Send,
    send_problem,
)
from rsmq.web.access.gate import Scope as AsgiScope
from rsmq.web.access.principals import Principal, read_only_error
from rsmq.web.audit import AuditEntry, facts_of, is_audited, is_destroying
from rsmq.web.delivery import (
    ClientLeft,
    Departure,
    check_presence,
    release,
    release_if_unread,
    send_whole,
    while_connected,
)
from rsmq.web.fields import Refused
from rsmq.web.idempotency import HEADER
from rsmq.web.patience import PatientClient
from rsmq.web.problems import describe
from rsmq.web.requests import MAX_BODY_BYTES, path_of, read_bytes, read_values
from rsmq.web.router import PathRouter
from rsmq.web.routes.forms import QUEUE
from rsmq.web.table import READING, ApiAnswer, ApiCall, Client, RawBody, Route, Scope

_READING_METHODS = {"GET", "HEAD"}
#: The messages of longer bodies may need seconds on their way to Redis.
_LARGE_BODY_BYTES = 1024 * 1024
_INTERNAL = 500
#: Where the path of an entry is in the scope of a request, for the log: without names.
_ROUTE = "rsmq.route"

_log = get_logger("rsmq.web")


class Api:
    """The operations of a table, on a client."""

    def __init__(
        self,
        queues: Client,
        table: Iterable[Route],
        *,
        read_only: bool,
        redact: tuple[JsonPath, ...] = (),
    ) -> None:
        self._queues = queues
        self._patient = PatientClient(queues)
        self._redact = redact
        self._router = PathRouter(table)
        self._read_only = read_only

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        departure = Departure(receive, scope)
        may_repeat = scope["method"] in _READING_METHODS
        try:
            answer = await self._answer(scope, receive, departure)
            await self._send(scope, send, answer, departure)
        except ClientLeft:
            return
        except Exception as error:  # noqa: BLE001 - each error has an answer
            problem = describe(error, may_repeat=may_repeat)
            if problem.status >= _INTERNAL:
                facts = (scope["method"], scope.get(_ROUTE, "?"), problem.status, problem.code)
                _log.error("%s %s: %d %s", *facts)
            await send_problem(send, problem)
        finally:
            departure.end()

    async def _answer(self, scope: AsgiScope, receive: Receive, departure: Departure) -> ApiAnswer:
        headers: Mapping[str, str] = scope[HEADERS]
        route, names = self._router.find(scope["method"], path_of(scope))
        scope[_ROUTE] = route.path
        principal: Principal = scope[PRINCIPAL]

        def allow(needed: Scope, queue: str | None) -> None:
            principal.check(needed, queue, read_only=self._read_only)

        async def keeps_rights() -> bool:
            try:
                return bool(await scope[ADMIT_AGAIN]() == principal)
            except Refused:
                return False

        if route.may_store and self._read_only:
            raise read_only_error()

        allow(route.scope, names.get(QUEUE))
        if HEADER in headers and not route.idempotent and route.scope not in READING:
            raise Refused("unknownHeader", "This call does not take Idempotency-Key", status=400)
        # Not before the caller is known and may do it: a body takes memory.
        body = await read_bytes(receive, headers, MAX_BODY_BYTES)
        values = read_values(route, scope, headers, body)
        raw = body if isinstance(route.body, RawBody) else b""
        is_large = route.scope is Scope.SEND and len(body) > _LARGE_BODY_BYTES
        is_long = route.is_long or is_large
        queues = await self._patient.client() if is_long else self._queues
        redaction = principal.redaction(self._redact)
        call = ApiCall(
            queues, names, values, raw, headers, allow, departure.wait, redaction, keeps_rights
        )
        if not is_audited(route.scope, route.method, names, values):
            return await route.handler(call)
        facts = facts_of(
            principal.name, scope[ADDRESS], f"{route.method} {route.path}", names, values
        )
        must_be_there = is_destroying(route.scope, values)
        entry = AuditEntry(self._queues, facts, is_destroying=must_be_there)
        return await entry.record(route.handler(call), lambda answer: str(answer.status))

    async def _send(
        self, scope: AsgiScope, send: Send, answer: ApiAnswer, departure: Departure
    ) -> None:
        content = _encode(answer)
        headers = dict(_HEADERS)
        for name, value in answer.headers.items():
            headers[name.encode("latin-1")] = value.encode("latin-1")
        has_body = answer.status != _NO_CONTENT
        if has_body and answer.stream is None:
            headers[b"Content-Length"] = b"%d" % len(content)
        elif not has_body:
            del headers[b"Content-Type"]
        start = {
            "type": "http.response.start",
            "status": answer.status,
            "headers": list(headers.items()),
        }
        is_shown = has_body and scope["method"] != "HEAD"
        if answer.stream is not None and is_shown:
            await send(start)
            await _send_stream(send, answer.stream, departure)
            return
        await check_presence(self._queues, answer.messages, departure)
        try:
            await send_whole(scope, send, start, content if is_shown else b"")
        except OSError:
            # The server says that the connection is gone, so nothing was handed to it.
            with suppress(OSError):
                await release(self._queues, answer.messages)
            raise ClientLeft from None
        release_if_unread(scope, self._queues, answer.messages)


async def _send_stream(send: Send, stream: AsyncGenerator[bytes], departure: Departure) -> None:
    """Send the pieces of a stream, each when the client has taken those before, until it leaves."""

    async def send_pieces() -> None:
        async with aclosing(stream):
            async for piece in stream:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    await while_connected(send_pieces(), departure.wait, give_back=_nothing_to_give_back)


async def _nothing_to_give_back(_: None) -> None:
    pass


_NO_CONTENT = 204
_HEADERS = {
    b"Content-Type": b"application/json",
    b"Cache-Control": b"no-store",
    b"X-Content-Type-Options": b"nosniff",
}


def _encode(answer: ApiAnswer) -> bytes:
    content: Any = answer.content
    if isinstance(content, bytes):
        return content
    return b"" if content is None else json.dumps(content).encode()
