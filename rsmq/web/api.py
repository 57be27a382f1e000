"""
The API as an ASGI application: finds the entry, calls its handler, and sends the answer.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from rsmq.errors.guarded_log import get_logger
from rsmq.search.json_path import JsonPath
from rsmq.web.access.gate import ADDRESS, ADMIT_AGAIN, HEADERS, PRINCIPAL, Receive, Send
from rsmq.web.access.gate import Scope as AsgiScope
from rsmq.web.access.principals import Principal
from rsmq.web.audit import AuditEntry, end_facts, facts_of, is_audited, is_destroying
from rsmq.web.client import Client
from rsmq.web.delivery import (
    ClientLeft,
    Departure,
    check_presence,
    release,
    release_if_unread,
    send_whole,
    while_connected,
)
from rsmq.web.fields import Refused, read_object, read_query
from rsmq.web.idempotency import HEADER
from rsmq.web.liveness import client_for_long_call
from rsmq.web.problems import describe, send_problem
from rsmq.web.requests import (
    MAX_BODY_BYTES,
    NAMESPACE,
    path_of,
    path_of_namespace,
    read_bytes,
    read_values,
)
from rsmq.web.router import PathRouter
from rsmq.web.routes.forms import QUEUE
from rsmq.web.selection.previews import load_selection
from rsmq.web.table import ApiAnswer, ApiCall, RawBody, Route, Scope
from rsmq.web.walks import QueueWalks

_READING_METHODS = {"GET", "HEAD"}
#: The messages of longer bodies may need seconds on their way to Redis.
_LARGE_BODY_BYTES = 1024 * 1024
_INTERNAL = 500
#: Where the path of an entry is in the scope of a request, for the log: without names.
_ROUTE = "rsmq.route"

_log = get_logger("rsmq.web")


@dataclass(frozen=True, slots=True)
class ApiCaller:
    """
    The caller.

    Attributes:
        address: of the client, for the audit stream.
        walks: the walks through all queues that it shares with others; None for its own.
    """

    principal: Principal
    address: str
    walks: QueueWalks | None = None


class Api:
    """The operations of a table, on a client."""

    def __init__(
        self,
        queues: Client,
        table: Iterable[Route],
        *,
        read_only: bool,
        redact: tuple[JsonPath, ...] = (),
        namespaces_of: Callable[[Principal], Mapping[str, str]] = lambda _: {},
    ) -> None:
        self._queues = queues
        self._walks = QueueWalks(queues)
        self._redact = redact
        self._namespaces_of = namespaces_of
        routes = tuple(table)
        self._router = PathRouter(routes)
        self._entries = {(each.method, each.path): each for each in routes}
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

        async def keeps_rights() -> bool:
            try:
                return bool(await scope[ADMIT_AGAIN]() == principal)
            except Refused:
                return False

        self._check(route, principal, names)
        if HEADER in headers and not route.idempotent and not route.is_reading:
            raise Refused("unknownHeader", "This call does not take Idempotency-Key", status=400)
        # Not before the caller is known and may do it: a body takes memory.
        body = await read_bytes(receive, headers, MAX_BODY_BYTES)
        values = await read_values(route, scope, headers, body)
        raw = body if isinstance(route.body, RawBody) else b""
        call = ApiCall(
            await self._client_for(route, len(body)), names, values, raw, headers,
            self._allow_of(principal), departure.wait, principal.redaction(self._redact),
            keeps_rights, principal.name, scope[ADDRESS], self._read_only, self._walks,
            partial(self._show_namespaces, scope),
        )  # fmt: skip
        return await self._run(route, call, ApiCaller(principal, scope[ADDRESS]))

    async def call(
        self,
        caller: ApiCaller,
        method: str,
        path: str,
        names: Mapping[str, str],
        *,
        query: Iterable[tuple[str, str]] = (),
        content: Mapping[str, Any] | None = None,
    ) -> ApiAnswer:
        """
        Run an entry for a part of this process, with the checks and records of a request.

        Args:
            path: that of the entry, as it is in the table.
            names: the decoded names in the path.
            query: the fields of the query, as texts.
            content: the JSON body.

        Raises:
            Refused: the caller may not do it, or a value is not valid.
            RSMQError, RedisError, OSError: as its handler raises them.
        """
        route = self._entries[method, path]
        self._check(route, caller.principal, names)
        values = read_query(list(query), route.query)
        if not isinstance(route.body, RawBody):
            values |= read_object(dict(content or {}), route.body)
        call = ApiCall(
            await self._client_for(route, 0), names, values, b"", {},
            self._allow_of(caller.principal), _never,
            caller.principal.redaction(self._redact), _always, caller.principal.name,
            caller.address, self._read_only, caller.walks or self._walks,
        )  # fmt: skip
        return await self._run(route, call, caller)

    async def count_selected(self, token: str) -> int:
        """
        Return the number of messages of a selection.

        Raises:
            Refused: there is none with this token, or its ten minutes are over.
        """
        return (await load_selection(self._queues, token)).count

    def _allow_of(self, principal: Principal) -> Callable[[Scope, str | None], None]:
        return partial(principal.check, read_only=self._read_only)

    def _check(self, route: Route, principal: Principal, names: Mapping[str, str]) -> None:
        if route.scope is not None:
            principal.check(route.scope, names.get(QUEUE), read_only=self._read_only)

    def _show_namespaces(self, scope: AsgiScope) -> dict[str, str]:
        """Return the namespaces of the caller of a request, each with the path of its API."""
        server = quote(scope["root_path"].rstrip("/"))
        paths = self._namespaces_of(scope[PRINCIPAL])
        return {name: server + path for name, path in paths.items()}

    async def _client_for(self, route: Route, size: int) -> Client:
        is_large = route.scope is Scope.SEND and size > _LARGE_BODY_BYTES
        is_long = route.is_long or is_large
        return await client_for_long_call(self._queues) if is_long else self._queues

    async def _run(self, route: Route, call: ApiCall, caller: ApiCaller) -> ApiAnswer:
        names, values = call.names, call.values
        if route.is_preview or not is_audited(route.scope, route.method, names, values):
            return await route.handler(call)
        if route.queue_of is not None:
            names = {**names, QUEUE: await route.queue_of(call)}
        facts = facts_of(
            caller.principal.name, caller.address, f"{route.method} {route.path}", names, values
        )
        must_be_there = is_destroying(route.scope, values)
        entry = AuditEntry(self._queues, facts, is_destroying=must_be_there)
        return await entry.record(route.handler(call), end_facts)

    async def _send(
        self, scope: AsgiScope, send: Send, answer: ApiAnswer, departure: Departure
    ) -> None:
        content = _encode(answer)
        headers = dict(_HEADERS)
        for name, value in answer.headers.items():
            if name == "Location":
                prefix = quote(scope.get("root_path", "").rstrip("/"))
                value = prefix + path_of_namespace(scope.get(NAMESPACE, "")) + value  # noqa: PLW2901
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
        release_if_unread(scope, self._queues, answer.messages)
        try:
            await send_whole(scope, send, start, content if is_shown else b"")
        except OSError:
            # The server says that the connection is gone, so nothing was handed to it.
            with suppress(OSError):
                await release(self._queues, answer.messages)
            raise ClientLeft from None


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


def _never() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


async def _always() -> bool:
    return True


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
