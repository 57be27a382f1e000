"""
The begin and the end of a session.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.responses import RedirectResponse, Response

from rsmq.web.access.gate import AccessGate
from rsmq.web.access.sessions import SESSION_SECONDS
from rsmq.web.fields import Refused
from rsmq.web.pages.links import Links, with_query
from rsmq.web.pages.page_request import (
    PageRequest,
    check_method,
    own_path,
    read_pairs,
    session_cookie,
)
from rsmq.web.pages.responses import SiteView, make_page
from rsmq.web.requests import read_bytes

LOGIN, LOGOUT, SESSION = "/login", "/logout", "/session"
#: Of those who are not known yet.
_MAX_LOGIN_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class LoginPage:
    """
    The form that begins a session.

    Attributes:
        next: the path of the page that follows.
        error: why there is no session; None before the form was sent.
    """

    next: str
    error: str | None


class LoginPages:
    """The pages that begin and end a session: a cookie that the gate signs."""

    def __init__(self, gate: AccessGate, view: Callable[[Links], SiteView]) -> None:
        self._gate = gate
        self._view = view

    async def log_in(self, request: PageRequest) -> Response:
        """Show the form, or begin a session with its fields."""
        check_method(request, "GET", "POST")
        back = own_path(request.query.get("next"))
        if request.method == "GET":
            return make_page("login.html", LoginPage(back, None), self._view(request.links))
        body = await read_bytes(request.receive, request.headers, _MAX_LOGIN_BYTES)
        form = read_pairs(body.decode("latin-1"))
        back = own_path(form.get("next"))
        try:
            session = await self._gate.log_in(
                request.headers, request.peer, form.get("name", ""), form.get("secret", ""),
                is_secure=request.is_secure,
            )  # fmt: skip
        except Refused as error:
            return self._show_refusal(request, back, error)
        response = RedirectResponse(request.links.prefix + back, 303)
        _set_session(response, request, session)
        return response

    def _show_refusal(self, request: PageRequest, back: str, error: Refused) -> Response:
        page = LoginPage(back, str(error))
        response = make_page("login.html", page, self._view(request.links), status=error.status)
        response.headers.update({k: v for k, v in error.headers.items() if k != "WWW-Authenticate"})
        return response

    async def use_link(self, request: PageRequest) -> Response:
        """
        Begin a session for the key in an address, and take it out of the address.

        Another site may have made the link, so it never replaces a session.
        """
        rest = {name: value for name, value in request.query.items() if name != "key"}
        address = request.links.url(request.path) + with_query(rest)
        response = RedirectResponse(address, 303)
        if self._gate.has_link and not await self._is_admitted(request):
            key = request.query["key"]
            try:
                session = await self._gate.log_in_by_link(
                    request.headers, request.peer, key, is_secure=request.is_secure
                )
            except Refused as error:
                back = own_path(address.removeprefix(request.links.prefix))
                return self._show_refusal(request, back, error)
            _set_session(response, request, session)
        return response

    async def _is_admitted(self, request: PageRequest) -> bool:
        try:
            await self._gate.admit(request.headers, request.peer, is_secure=request.is_secure)
        except Refused:
            return False
        return True

    async def log_out(self, request: PageRequest) -> Response:
        """End a session, or all sessions of its owner."""
        check_method(request, "POST")
        body = await read_bytes(request.receive, request.headers, _MAX_LOGIN_BYTES)
        await self._gate.log_out(
            request.headers, is_secure=request.is_secure,
            everywhere="everywhere" in read_pairs(body.decode("latin-1")),
        )  # fmt: skip
        response = RedirectResponse(request.links.server(LOGIN), 303)
        response.delete_cookie(session_cookie(request), path=request.links.server())
        return response


def _set_session(response: Response, request: PageRequest, value: str) -> None:
    response.set_cookie(
        session_cookie(request), value, max_age=SESSION_SECONDS, path=request.links.server(),
        secure=request.is_secure, httponly=True, samesite="strict",
    )  # fmt: skip
