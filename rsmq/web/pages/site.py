"""
The pages as an ASGI application: sessions, views, files, and errors that people read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

from redis.exceptions import RedisError
from starlette.datastructures import MutableHeaders
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import RedirectResponse, Response

from rsmq.errors import RSMQError
from rsmq.web.access.gate import AccessGate, Asgi, Receive, Send, send_problem
from rsmq.web.access.gate import Scope as AsgiScope
from rsmq.web.access.sessions import SESSION_SECONDS, cookie_name
from rsmq.web.api import Api, ApiCaller
from rsmq.web.delivery import ClientLeft
from rsmq.web.fields import Refused
from rsmq.web.pages.action_runner import Actions, Asked, Flash, read_flash
from rsmq.web.pages.links import Links
from rsmq.web.pages.reads import REFRESH_SECONDS, NewReads, PageReads, SharedReads
from rsmq.web.pages.rendering import POLICY, read_file, render, version_of
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.pages.views import PAGES
from rsmq.web.problems import HttpProblem, describe
from rsmq.web.requests import headers_of, path_of, read_bytes
from rsmq.web.router import PathRouter
from rsmq.web.table import Scope

_MAX_FORM_BYTES = 4 * 1024 * 1024
#: Of those who are not known yet.
_MAX_LOGIN_BYTES = 16 * 1024
#: Fields of a form: the ids of messages that were chosen, and some more.
_MAX_FIELDS = 20_000
_STATIC = "/static/"
_LOGIN, _LOGOUT = "/login", "/logout"
_ACTIONS = "/actions/"
_YEAR = 365 * 24 * 3600
_UNAUTHORIZED, _NOT_FOUND, _UNAVAILABLE = 401, 404, 503


@dataclass(frozen=True, slots=True)
class SiteView:
    """What every template knows of the site and of its caller."""

    links: Links
    namespace: str
    version: str
    user: str
    is_read_only: bool
    has_session: bool
    menu: tuple[tuple[str, str, bool], ...]
    call: PageCall | None

    def file(self, name: str) -> str:
        """Return the address of a file of the pages."""
        return self.links.url(f"static/{name}", v=version_of(name))

    def may(self, scope: str, queue: str | None = None) -> bool:
        """Return whether the caller has a scope, by its name."""
        return self.call is not None and self.call.may(Scope(scope), queue)


@dataclass(frozen=True, slots=True)
class _PageRequest:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    peer: Any
    links: Links
    is_secure: bool
    receive: Receive

    @property
    def origin(self) -> str:
        """The address of the site, as the caller knows it."""
        scheme = "https" if self.is_secure else "http"
        return f"{scheme}://{self.headers.get('host', 'localhost')}{self.links.prefix}"

    @property
    def address(self) -> str:
        """The path and the query, below the prefix."""
        return self.path + (f"?{self.headers[_QUERY]}" if self.headers[_QUERY] else "")


_QUERY = ":query"


class Site:
    """The pages of a server."""

    def __init__(
        self, gate: AccessGate, api: Api, *, namespace: str, version: str, read_only: bool
    ) -> None:
        self._gate = gate
        self._api = api
        self._namespace = namespace
        self._version = version
        self._read_only = read_only
        self._reads = SharedReads(api)
        self._router = PathRouter(PAGES)
        self._actions = Actions(api)
        self._zipped: Asgi = GZipMiddleware(self._answer, minimum_size=1000)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http":
            await self._zipped(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close"})

    async def _answer(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        prefix = quote(scope.get("root_path", "").rstrip("/"), safe="/:")
        try:
            headers, peer = headers_of(scope), scope.get("client")
            query = scope["query_string"].decode("latin-1")
            # The answer to HEAD is that to GET without its body.
            method = "GET" if scope["method"] == "HEAD" else scope["method"]
            request = _PageRequest(
                method, path_of(scope) or "/", _read_pairs(query),
                {**headers, _QUERY: query}, peer, Links(prefix),
                self._gate.is_secure(scope.get("scheme", "http"), headers, peer), receive,
            )  # fmt: skip
            response = await self._respond(request)
        except ClientLeft:
            return
        except Exception as error:  # noqa: BLE001 - each error has a page
            problem = describe(error, may_repeat=scope["method"] in {"GET", "HEAD"})
            if not _reads_pages(dict(scope["headers"])):
                await send_problem(send, problem)
                return
            response = self._show_problem(problem, Links(prefix), None, None)
        _protect(response.headers)
        if scope["method"] == "HEAD":
            response.body = b""
        await response(scope, receive, send)

    async def _respond(self, request: _PageRequest) -> Response:
        if request.path.startswith(_STATIC):
            _check_method(request, "GET")
            return _send_file(request.path.removeprefix(_STATIC))
        if _is_foreign_link(request):
            # Cookies are not sent for a link on another site, but they are for this page's own.
            here = request.links.prefix + _own_path(request.address)
            return _page("arriving.html", {"here": here})
        self._gate.check_host(request.headers)
        if request.path == _LOGIN:
            return await self._log_in(request)
        if request.path == _LOGOUT:
            _check_method(request, "POST")
            await self._gate.admit(request.headers, request.peer)
            return _drop_session(request)
        if request.method == "GET" and "key" in request.query:
            return await self._use_key(request)
        return await self._admit(request)

    async def _admit(self, request: _PageRequest) -> Response:
        try:
            principal = await self._gate.admit(request.headers, request.peer)
        except Refused as error:
            is_person = request.method == "GET" and _reads_pages(request.headers)
            if error.status != _UNAUTHORIZED or not is_person:
                raise
            back = None if request.path == "/" else request.address
            return RedirectResponse(request.links.url(_LOGIN, next=back), 303)
        address = self._gate.address_of(request.headers, request.peer)
        return await self._show(request, ApiCaller(principal, address))

    # -- pages

    async def _show(self, request: _PageRequest, caller: ApiCaller) -> Response:
        reads = PageReads(self._reads, caller)

        async def run(
            method: str, path: str, names: Mapping[str, str], content: Mapping[str, Any]
        ) -> Any:
            return (await self._api.call(caller, method, path, names, content=content)).content

        call = PageCall(
            {}, request.query, caller, reads, request.origin, run,
            partial(caller.principal.check, read_only=self._read_only), self._api.count_selected,
        )  # fmt: skip
        page: PageEntry | None = None
        try:
            if request.path.startswith(_ACTIONS):
                return await self._act(request, call)
            page, names = self._router.find(request.method, request.path)
            call.check(page.scope, names.get("queue"))
            call = replace(call, names=names)
            values = await page.view(call)
        except (Refused, RSMQError, RedisError, OSError) as error:
            if not _reads_pages(request.headers):
                raise
            problem = describe(error, may_repeat=request.method == "GET")
            return self._show_problem(problem, request.links, call, page)
        flash = read_flash(request.headers)
        content = render(
            page.template,
            {
                "refresh": self._reads.interval if page.refreshes else 0,
                **values,
                "site": self._view_of(request.links, call, page, request),
                "links": request.links,
                "call": call,
                "age": max(reads.ages, default=None),
                "flash": flash,
            },
        )
        etag = f'W/"{hashlib.sha256(content).hexdigest()[:20]}"'
        headers = {"ETag": etag, "Cache-Control": "no-store"}
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        response = Response(content, 200, headers, "text/html; charset=utf-8")
        if flash is not None:
            response.delete_cookie(Flash.cookie, path=request.links.url())
        return response

    async def _act(self, request: _PageRequest, call: PageCall) -> Response:
        _check_method(request, "GET", "POST")
        name = unquote(request.path.removeprefix(_ACTIONS), errors="surrogateescape")
        action = self._actions.find(name)
        # The counts, and whether a name is to be typed, are those of now.
        call = replace(call, read=NewReads(self._api, call.caller))
        if request.method == "GET":
            fields = _read_fields(request.headers[_QUERY])
            values = await self._actions.confirm(Asked(action, call, fields, request.links))
        else:
            body = await read_bytes(request.receive, request.headers, _MAX_FORM_BYTES)
            # A form sends the end of a line as two characters, whatever its text has.
            fields = _read_fields(body.decode("latin-1").replace("%0D%0A", "%0A"))
            outcome = await self._actions.run(Asked(action, call, fields, request.links))
            self._reads.forget_all()
            if isinstance(outcome, Flash):
                response = RedirectResponse(outcome.address, 303)
                outcome.store(response, request.links.url(), is_secure=request.is_secure)
                return response
            values = outcome
        view = self._view_of(request.links, call, None, request)
        shared = {"site": view, "links": request.links, "call": call}
        shown = _page("action.html", {**values, **shared})
        shown.status_code = values["problem"].status if values.get("problem") else 200
        return shown

    def _view_of(
        self,
        links: Links,
        call: PageCall | None,
        page: PageEntry | None,
        request: _PageRequest | None,
    ) -> SiteView:
        current = page and (page.below or page.path)
        menu = tuple(
            (each.menu, links.url(each.path), each.path == current)
            for each in PAGES
            if each.menu and (call is None or call.may(each.scope, None))
        )
        name = call.caller.principal.name if call else ""
        has_session = request is not None and _cookie_of(request) in request.headers.get(
            "cookie", ""
        )
        return SiteView(
            links, self._namespace, self._version, name, self._read_only, has_session,
            menu if call else (), call,
        )  # fmt: skip

    def _show_problem(
        self, problem: HttpProblem, links: Links, call: PageCall | None, page: PageEntry | None
    ) -> Response:
        view = self._view_of(links, call, page, None)
        values = {"problem": problem, "title": HTTPStatus(problem.status).phrase, "site": view}
        # Redis may be back soon; the page then shows itself.
        refresh = REFRESH_SECONDS if problem.status == _UNAVAILABLE else 0
        response = _page(
            "problem.html", {**values, "links": links, "call": call, "refresh": refresh}
        )
        response.status_code = problem.status
        for name, value in problem.headers.items():
            if name != "WWW-Authenticate":  # a browser would ask for a password in a window
                response.headers[name] = value
        return response

    # -- sessions

    async def _log_in(self, request: _PageRequest) -> Response:
        _check_method(request, "GET", "POST")
        back = _own_path(request.query.get("next"))
        if request.method == "GET":
            return _page("login.html", {**self._login_values(request), "next": back, "error": None})
        body = await read_bytes(request.receive, request.headers, _MAX_LOGIN_BYTES)
        form = _read_pairs(body.decode("latin-1"))
        back = _own_path(form.get("next"))
        try:
            session = await self._gate.log_in(
                request.headers, request.peer, form.get("name", ""), form.get("secret", "")
            )
        except Refused as error:
            values = {**self._login_values(request), "next": back, "error": str(error)}
            response = _page("login.html", values)
            response.status_code = error.status
            response.headers.update(
                {k: v for k, v in error.headers.items() if k != "WWW-Authenticate"}
            )
            return response
        response = RedirectResponse(request.links.prefix + back, 303)
        _set_session(response, request, session)
        return response

    def _login_values(self, request: _PageRequest) -> dict[str, Any]:
        return {"site": self._view_of(request.links, None, None, None), "links": request.links}

    async def _use_key(self, request: _PageRequest) -> Response:
        """Begin a session for the key in an address, and take it out of the address."""
        rest = {name: value for name, value in request.query.items() if name != "key"}
        response = RedirectResponse(request.links.url(request.path, **rest), 303)
        if not self._gate.knows_everyone:
            key = request.query["key"]
            session = await self._gate.log_in(request.headers, request.peer, "", key)
            _set_session(response, request, session)
        return response


def _read_fields(text: str) -> dict[str, list[str]]:
    try:
        pairs = parse_qsl(
            text, keep_blank_values=True, errors="surrogateescape", max_num_fields=_MAX_FIELDS
        )
    except ValueError:
        raise Refused("invalidFormat", "The form is not valid", status=400) from None
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    return fields


def _read_pairs(text: str) -> dict[str, str]:
    return {name: values[0] for name, values in _read_fields(text).items()}


def _reads_pages(headers: Mapping[Any, Any]) -> bool:
    """Return whether a client shows HTML to people; others get problem details."""
    accept = headers.get("accept") or headers.get(b"accept", b"")
    return "text/html" in (accept.decode("latin-1") if isinstance(accept, bytes) else accept)


def _is_foreign_link(request: _PageRequest) -> bool:
    """Return whether a person has followed a link on another site."""
    return (
        request.method == "GET"
        and request.headers.get("sec-fetch-site") in {"cross-site", "same-site"}
        and request.headers.get("sec-fetch-mode") == "navigate"
        and request.headers.get("sec-fetch-dest") == "document"
    )


def _check_method(request: _PageRequest, *allowed: str) -> None:
    """Refuse a request whose method the path does not have."""
    if request.method not in allowed:
        text = ", ".join(sorted({*allowed, *({"HEAD"} if "GET" in allowed else ())}))
        raise Refused(
            "methodNotAllowed", f"This path has no {request.method}", status=405,
            hint=f"It has {text}.", headers={"Allow": text},
        )  # fmt: skip


def _own_path(text: str | None) -> str:
    """Return a path of this site, whatever an address names as the next page."""
    if not text or not text.startswith("/") or text.startswith(("//", "/\\")):
        return "/"
    return quote(text, safe="/?&=%:+,;@!$'()*~.-_")


def _cookie_of(request: _PageRequest) -> str:
    return cookie_name(request.headers.get("host", ""))


def _set_session(response: Response, request: _PageRequest, value: str) -> None:
    response.set_cookie(
        _cookie_of(request), value, max_age=SESSION_SECONDS, path=request.links.url(),
        secure=request.is_secure, httponly=True, samesite="strict",
    )  # fmt: skip


def _drop_session(request: _PageRequest) -> Response:
    response = RedirectResponse(request.links.url(_LOGIN), 303)
    response.delete_cookie(_cookie_of(request), path=request.links.url())
    return response


def _page(template: str, values: Mapping[str, Any]) -> Response:
    content = render(template, {"refresh": 0, "age": None, "flash": None, **values})
    headers = {"Cache-Control": "no-store"}
    return Response(content, 200, headers, "text/html; charset=utf-8")


def _send_file(name: str) -> Response:
    found = read_file(name)
    if found is None:
        raise Refused("notFound", "There is no such file", status=_NOT_FOUND)
    headers = {"Cache-Control": f"public, max-age={_YEAR}, immutable"}
    return Response(found[0], 200, headers, found[1])


def _protect(headers: MutableHeaders) -> None:
    headers["Content-Security-Policy"] = POLICY
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Referrer-Policy"] = "same-origin"
    headers["Cross-Origin-Opener-Policy"] = "same-origin"
