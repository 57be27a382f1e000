"""
The pages as an ASGI application: sessions, views, files, and errors that people read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, unquote

from redis.exceptions import RedisError
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import RedirectResponse, Response

from rsmq.errors import QueueNotFound, RSMQError
from rsmq.web.access.gate import AccessGate, Asgi, Receive, Send
from rsmq.web.access.gate import Scope as AsgiScope
from rsmq.web.access.principals import NAMESPACE_NOT_FOUND, Principal
from rsmq.web.api import Api, ApiCaller
from rsmq.web.delivery import ClientLeft
from rsmq.web.fields import Refused
from rsmq.web.pages.action_runner import Actions, Asked, Flash, read_flash
from rsmq.web.pages.links import Links
from rsmq.web.pages.login import LOGIN, LOGOUT, SESSION, LoginPages
from rsmq.web.pages.page_request import (
    QUERY,
    PageRequest,
    check_method,
    is_foreign_link,
    own_path,
    read_fields,
    read_pairs,
    reads_pages,
    session_cookie,
)
from rsmq.web.pages.reads import REFRESH_SECONDS, NewReads, PageReads, SharedReads
from rsmq.web.pages.recent_changes import find_deletion
from rsmq.web.pages.rendering import load_files
from rsmq.web.pages.responses import SiteView, make_page, protect, send_file
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.pages.views import PAGES
from rsmq.web.problems import HttpProblem, describe, send_problem
from rsmq.web.requests import NAMESPACE, headers_of, path_of, read_bytes
from rsmq.web.router import PathRouter
from rsmq.web.walks import SharedWalks

_MAX_FORM_BYTES = 4 * 1024 * 1024
_STATIC = "/static/"
_ACTIONS = "/actions/"
_UNAUTHORIZED, _UNAVAILABLE = 401, 503


@dataclass(frozen=True, slots=True)
class ArrivingPage:
    """The page that a link on another site leads to: it leads on ``here``, with the cookies."""

    here: str


@dataclass(frozen=True, slots=True)
class ProblemPage:
    """
    A page in the place of one that can't be shown.

    Attributes:
        deletion: that of its queue, which the caller can undo.
    """

    problem: HttpProblem
    deletion: Mapping[str, Any] | None = None

    @property
    def title(self) -> str:
        """The words of the status."""
        return HTTPStatus(self.problem.status).phrase


async def _find_deletion(call: PageCall) -> Mapping[str, Any] | None:
    """Return the deletion of the queue of a page, if it can be read and undone."""
    with suppress(Refused, RSMQError, RedisError, OSError):
        return await find_deletion(call, call.names.get("queue", ""))
    return None


class Site:
    """The pages of a server."""

    def __init__(
        self,
        gate: AccessGate,
        api: Api,
        walks: SharedWalks,
        *,
        namespace: str,
        namespaces_of: Callable[[Principal], tuple[str, ...]],
        version: str,
        read_only: bool,
    ) -> None:
        load_files()
        self._gate = gate
        self._api = api
        self._walks = walks
        self._namespace = namespace
        self._namespaces_of = namespaces_of
        self._version = version
        self._read_only = read_only
        self._reads = SharedReads(api)
        self._router = PathRouter(PAGES)
        self._actions = Actions(api)
        self._login = LoginPages(gate, self._view_of)
        self._zipped: Asgi = GZipMiddleware(self._answer, minimum_size=1000)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http":
            await self._zipped(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close"})

    async def _answer(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        prefix = quote(scope.get("root_path", "").rstrip("/"), safe="/:")
        links = Links(prefix, scope.get(NAMESPACE, ""))
        request: PageRequest | None = None
        try:
            headers, peer = headers_of(scope), scope.get("client")
            query = scope["query_string"].decode("latin-1")
            # The answer to HEAD is that to GET without its body.
            method = "GET" if scope["method"] == "HEAD" else scope["method"]
            request = PageRequest(
                method, path_of(scope) or "/", read_pairs(query),
                {**headers, QUERY: query}, peer, links,
                self._gate.is_secure(scope.get("scheme", "http"), headers, peer), receive,
            )  # fmt: skip
            response = await self._respond(request)
        except ClientLeft:
            return
        except Exception as error:  # noqa: BLE001 - each error has a page
            problem = describe(error, may_repeat=scope["method"] in {"GET", "HEAD"})
            if not reads_pages(dict(scope["headers"])):
                await send_problem(send, problem)
                return
            response = self._show_problem(problem, links, None, None, request)
        protect(response.headers)
        if scope["method"] == "HEAD":
            response.body = b""
        await response(scope, receive, send)

    async def _respond(self, request: PageRequest) -> Response:
        is_of_server = not request.links.namespace
        if is_of_server and request.path.startswith(_STATIC):
            check_method(request, "GET")
            return send_file(request.path.removeprefix(_STATIC))
        if is_foreign_link(request):
            # Cookies are not sent for a link on another site, but they are for this page's own.
            here = request.links.prefix + own_path(request.address)
            return make_page("arriving.html", ArrivingPage(here), self._view_of(request.links))
        self._gate.check_host(request.headers)
        if is_of_server and (found := await self._begin_or_end_session(request)) is not None:
            return found
        return await self._admit(request)

    async def _begin_or_end_session(self, request: PageRequest) -> Response | None:
        """Answer a request that begins or ends a session; None for others."""
        if request.path == LOGIN:
            return await self._login.log_in(request)
        if request.path == LOGOUT:
            return await self._login.log_out(request)
        if request.method == "GET" and "key" in request.query:
            return await self._login.use_link(request)
        return None

    async def _admit(self, request: PageRequest) -> Response:
        try:
            principal = await self._gate.admit(
                request.headers, request.peer, is_secure=request.is_secure
            )
        except Refused as error:
            is_person = request.method == "GET" and reads_pages(request.headers)
            if is_person and error.code == NAMESPACE_NOT_FOUND and request.address == "/":
                return RedirectResponse(
                    request.links.server("ns"), 303
                )  # to one that is the caller's
            if error.status != _UNAUTHORIZED or not is_person:
                raise
            back = None if request.address == "/" else request.address
            return RedirectResponse(request.links.server(LOGIN, next=back), 303)
        address = self._gate.address_of(request.headers, request.peer)
        return await self._show(request, ApiCaller(principal, address, self._walks))

    def forget_all(self) -> None:
        """Let the next pages read again, after a change."""
        self._walks.forget_all()
        self._reads.forget_all()

    # -- pages

    async def _show(self, request: PageRequest, caller: ApiCaller) -> Response:
        reads = PageReads(self._reads, caller)

        async def run(
            method: str, path: str, names: Mapping[str, str], content: Mapping[str, Any]
        ) -> Any:
            return (await self._api.call(caller, method, path, names, content=content)).content

        call = PageCall(
            {}, request.query, caller, reads, reads.read_lasting, request.api_url, run,
            partial(caller.principal.check, read_only=self._read_only), self._api.count_selected,
        )  # fmt: skip
        page: PageEntry | None = None
        try:
            if request.path.startswith(_ACTIONS):
                return await self._act(request, call)
            if request.path == SESSION:
                check_method(request, "GET")
                view = self._view_of(request.links, call, None, request)
                return make_page("session.html", None, view)
            page, names = self._router.find(request.method, request.path)
            call.check(page.scope, names.get("queue"))
            call = replace(call, names=names)
            shown = await page.view(call)
        except (Refused, RSMQError, RedisError, OSError) as error:
            if not reads_pages(request.headers):
                raise
            problem = describe(error, may_repeat=request.method == "GET")
            deletion = await _find_deletion(call) if isinstance(error, QueueNotFound) else None
            return self._show_problem(
                problem, request.links, call, page, request, deletion=deletion
            )
        flash = read_flash(request.headers)
        is_live = page.refreshes and getattr(shown, "is_live", True)
        response = make_page(
            page.template, shown, self._view_of(request.links, call, page, request),
            refresh=self._reads.interval if is_live else 0, age=max(reads.ages, default=None),
            flash=flash,
        )  # fmt: skip
        etag = f'W/"{hashlib.sha256(response.body).hexdigest()[:20]}"'
        response.headers["ETag"] = etag
        if request.headers.get("if-none-match") == etag:
            headers = {"ETag": etag, "Cache-Control": "no-store"}
            return Response(status_code=304, headers=headers)
        if flash is not None:
            response.delete_cookie(Flash.cookie, path=request.links.url())
        return response

    async def _act(self, request: PageRequest, call: PageCall) -> Response:
        check_method(request, "GET", "POST")
        name = unquote(request.path.removeprefix(_ACTIONS), errors="surrogateescape")
        action = self._actions.find(name)
        # The counts, and whether a name is to be typed, are those of now.
        read = NewReads(self._api, replace(call.caller, walks=None))
        call = replace(call, read=read, read_lasting=read)
        if request.method == "GET":
            fields = read_fields(request.headers[QUERY])
            shown = await self._actions.confirm(Asked(action, call, fields, request.links))
        else:
            body = await read_bytes(request.receive, request.headers, _MAX_FORM_BYTES)
            # A form sends the end of a line as two characters, whatever its text has.
            fields = read_fields(body.decode("latin-1").replace("%0D%0A", "%0A"))
            outcome = await self._actions.run(Asked(action, call, fields, request.links))
            self.forget_all()
            if isinstance(outcome, Flash):
                response = RedirectResponse(outcome.address, 303)
                outcome.store(response, request.links.url(), is_secure=request.is_secure)
                return response
            shown = outcome
        view = self._view_of(request.links, call, None, request)
        status = shown.problem.status if shown.problem else 200
        return make_page("action.html", shown, view, status=status)

    def _view_of(
        self,
        links: Links,
        call: PageCall | None = None,
        page: PageEntry | None = None,
        request: PageRequest | None = None,
    ) -> SiteView:
        current = page and (page.below or page.path)
        menu = tuple(
            (each.menu, links.url(each.path), each.path == current)
            for each in PAGES
            if each.menu and (call is None or call.may(each.scope, None))
        )
        name = call.caller.principal.name if call else ""
        # On the page of a problem, whether the namespace of the path exists is not told.
        namespace = self._namespace if call or not links.namespace else ""
        has_session = request is not None and session_cookie(request) in request.headers.get(
            "cookie", ""
        )
        return SiteView(
            links, namespace, self._version, name, self._read_only, has_session,
            menu if call else (), call,
            self._namespaces_of(call.caller.principal) if call else (), current or "",
        )  # fmt: skip

    def _show_problem(
        self,
        problem: HttpProblem,
        links: Links,
        call: PageCall | None,
        page: PageEntry | None,
        request: PageRequest | None,
        *,
        deletion: Mapping[str, Any] | None = None,
    ) -> Response:
        view = self._view_of(links, call, page, request)
        # Redis may be back soon; the page then shows itself.
        refresh = REFRESH_SECONDS if problem.status == _UNAVAILABLE else 0
        response = make_page(
            "problem.html", ProblemPage(problem, deletion), view, status=problem.status,
            refresh=refresh,
        )  # fmt: skip
        for name, value in problem.headers.items():
            if name != "WWW-Authenticate":  # a browser would ask for a password in a window
                response.headers[name] = value
        return response
