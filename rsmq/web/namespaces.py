"""
The paths that name a namespace: each is served by the application of that namespace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, quote, unquote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from rsmq.web.access.gate import AccessGate, Asgi
from rsmq.web.access.principals import namespace_not_found
from rsmq.web.fields import Refused
from rsmq.web.monitoring import NamespacesOf
from rsmq.web.problems import describe, problem_response
from rsmq.web.requests import NAMESPACE, headers_of, path_of, path_of_namespace

#: The path below which namespaces are named, of pages and of the API.
PATH = "/ns"
_UNAUTHORIZED = 401


class NamespacePaths:
    """
    Serves the paths below ``/ns/NAME``.

    An application gets a request as if its path did not name the namespace, whose name is in the
    scope.

    Args:
        prefix: the path before ``/ns``, which is the begin of the application's own paths.
        apps: the application of each namespace.
        nowhere: the application for other names. It must answer like one of a namespace in which
            the caller has no rights.
        listing: the application for ``/ns/`` itself.
    """

    def __init__(
        self, prefix: str, apps: Mapping[str, Asgi], *, nowhere: Asgi, listing: Asgi
    ) -> None:
        self._prefix = prefix
        self._apps = apps
        self._nowhere = nowhere
        self._listing = listing

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, whose ``root_path`` ends with ``/ns``."""
        name, _, rest = path_of(scope).removeprefix("/").partition("/")
        if not name:
            await self._listing(scope, receive, send)
            return
        namespace = unquote(name, errors="surrogateescape")
        root = scope["root_path"].removesuffix(self._prefix + PATH) + self._prefix
        scope["root_path"] = root
        scope["path"] = f"{root}/{unquote(rest)}"
        scope["raw_path"] = f"{quote(root, safe='/:')}/{rest}".encode("latin-1")
        scope[NAMESPACE] = namespace
        await self._apps.get(namespace, self._nowhere)(scope, receive, send)


def namespace_switch(gate: AccessGate, namespaces_of: NamespacesOf, first: str) -> Any:
    """Return an endpoint that leads from the form in the head of pages to another namespace."""

    async def switch(request: Request) -> Response:
        scope = request.scope
        server = quote(scope.get("root_path", "").removesuffix(PATH))
        try:
            headers, peer = headers_of(scope), scope.get("client")
            is_secure = gate.is_secure(scope.get("scheme", "http"), headers, peer)
            names = namespaces_of(await gate.admit(headers, peer, is_secure=is_secure))
            fields = parse_qs(scope["query_string"].decode("latin-1"))
            name = fields.get("ns", [*names, ""])[0]
            if name not in names:
                raise namespace_not_found()
        except Refused as error:
            if error.status == _UNAUTHORIZED:
                return RedirectResponse(f"{server}/login", 303)
            return problem_response(describe(error, may_repeat=True))
        page = quote(fields.get("page", [""])[0].strip("/"), safe="/-")
        below = "" if name == first else path_of_namespace(name)
        return RedirectResponse(f"{server}{below}/{page}", 303)

    return switch
