"""
The prefix of a server behind a proxy, which may have removed it from paths or not.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from rsmq.web.pages.views import PAGES

#: The first parts of the server's own paths.
_OWN = {
    "actions", "api", "healthz", "login", "logout", "messages", "metrics", "ns", "queues", "readyz",
    "rest-rsmq", "session", "static", *(each.path.split("/")[1] for each in PAGES),
}  # fmt: skip


class RootPath:
    """
    An ASGI application whose paths begin with a prefix that may be missing in requests.

    A prefix such as ``/queues`` begins as paths of the server do. So it counts as removed: a
    request for ``/queues/orders`` is for that page.

    Args:
        prefix: as people write it, such as ``/rsmq``; empty if there is none.
    """

    def __init__(self, app: Any, prefix: str) -> None:
        self._app = app
        self._prefix = f"/{prefix.strip('/')}" if prefix.strip("/") else ""
        self._raw = quote(self._prefix, safe="/:").encode()
        self._is_own = prefix.strip("/").partition("/")[0] in _OWN

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        if self._prefix and "path" in scope:
            scope["root_path"] = self._prefix
            path = scope["path"]
            if self._is_own or not (path == self._prefix or path.startswith(f"{self._prefix}/")):
                scope["path"] = self._prefix + path
                scope["raw_path"] = self._raw + scope["raw_path"]
        await self._app(scope, receive, send)
