"""
Answers of the pages: a template as a response, and the files beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

from starlette.datastructures import MutableHeaders
from starlette.responses import Response

from rsmq.web.fields import Refused
from rsmq.web.pages.actions import BY_NAME
from rsmq.web.pages.actions.form import PageAction
from rsmq.web.pages.links import Links
from rsmq.web.pages.rendering import POLICY, read_file, render, version_of
from rsmq.web.pages.table import PageCall
from rsmq.web.table import Scope

_YEAR = 365 * 24 * 3600
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class SiteView:
    """
    The facts that every template has of the site and of its caller.

    Attributes:
        namespace: whose pages they are; empty if the caller may not know it.
        namespaces: those in which the caller has rights.
        page: the path of the page in the menu to which the shown one belongs; empty for others.
    """

    links: Links
    namespace: str
    version: str
    user: str
    is_read_only: bool
    has_session: bool
    menu: tuple[tuple[str, str, bool], ...]
    call: PageCall | None
    namespaces: tuple[str, ...]
    page: str

    def file(self, name: str) -> str:
        """Return the address of a file of the pages."""
        return self.links.server(f"static/{name}", v=version_of(name))

    def offer(self, name: str, queue: str | None) -> PageAction | None:
        """Return an action on a queue; None if the caller lacks one of its rights."""
        found = BY_NAME[name]
        return found if all(self.may(each.value, queue) for each in found.scopes) else None

    def may(self, scope: str, queue: str | None = None) -> bool:
        """Return whether the caller has a scope, by its name."""
        return self.call is not None and self.call.may(Scope(scope), queue)


def make_page(
    template: str,
    record: object,
    site: SiteView,
    *,
    status: int = 200,
    refresh: float = 0,
    age: float | None = None,
    flash: object = None,
) -> Response:
    """
    Return a page.

    Args:
        refresh: the seconds after which it asks for itself again; 0 for never.
        age: the seconds since its figures were read, if Redis is away.
        flash: what it says once.
    """
    shared = {"links": site.links, "call": site.call, "refresh": refresh, "age": age}
    content = render(template, record, site=site, flash=flash, **shared)
    headers = {"Cache-Control": "no-store"}
    return Response(content, status, headers, "text/html; charset=utf-8")


def send_file(name: str) -> Response:
    """
    Return a file of the pages.

    Raises:
        Refused: there is no such file.
    """
    found = read_file(name)
    if found is None:
        raise Refused("notFound", "There is no such file", status=_NOT_FOUND)
    headers = {"Cache-Control": f"public, max-age={_YEAR}, immutable"}
    return Response(found[0], 200, headers, found[1])


def protect(headers: MutableHeaders) -> None:
    """Set the headers that let a browser load and show only what is of these pages."""
    headers["Content-Security-Policy"] = POLICY
    headers["X-Content-Type-Options"] = "nosniff"
    headers["Referrer-Policy"] = "same-origin"
    headers["Cross-Origin-Opener-Policy"] = "same-origin"
