"""
``memory://``: a Redis inside this process, for development and tests (fakeredis).

Its data exist as long as the process. Its clock is that of the process, so that freezegun can set
it. The module is imported only when such a URL is opened.
"""

from __future__ import annotations

import threading
from typing import Any

from rsmq.errors import MissingExtra

try:
    import fakeredis
    import lupa  # noqa: F401 - fakeredis needs it for scripts, and fails only when it runs one
except ImportError as error:
    raise MissingExtra("embedded", "memory://") from error

_servers: dict[str, Any] = {}
_lock = threading.Lock()


def server(url: str) -> Any:
    """
    Return the server of a URL.

    ``memory://NAME`` is the same server for all clients in this process; ``memory://`` is a new
    server for each call.

    Args:
        url: a URL that starts with ``memory://``.
    """
    name = url.removeprefix("memory://")
    if not name:
        return fakeredis.FakeServer(server_type="redis")
    with _lock:
        return _servers.setdefault(name, fakeredis.FakeServer(server_type="redis"))


def client(url: str) -> Any:
    """Return a new synchronous client of a memory:// URL."""
    return fakeredis.FakeRedis(server=server(url))


def async_client(url: str) -> Any:
    """Return a new asyncio client of a memory:// URL."""
    return fakeredis.FakeAsyncRedis(server=server(url))
