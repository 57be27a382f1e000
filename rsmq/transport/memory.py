"""
``memory://``: a Redis inside this process, for development and tests (fakeredis).

Its data live as long as the process; its time is the process's time, so that freezegun moves it.
Imported only when such a URL is opened.
"""

from __future__ import annotations

import threading
from typing import Any

from rsmq.errors import MissingExtra

try:
    import fakeredis
    import lupa  # noqa: F401 - fakeredis runs scripts with it, and misses it only then
except ImportError as error:
    raise MissingExtra("embedded", "memory://") from error

_servers: dict[str, Any] = {}
_lock = threading.Lock()


def server(url: str) -> Any:
    """
    The server of a URL: ``memory://NAME`` is shared by all who name it, ``memory://`` by none.

    Args:
        url: a URL that starts with ``memory://``.
    """
    name = url.removeprefix("memory://")
    if not name:
        return fakeredis.FakeServer(server_type="redis")
    with _lock:
        return _servers.setdefault(name, fakeredis.FakeServer(server_type="redis"))


def client(url: str) -> Any:
    """A synchronous client of a memory:// URL."""
    return fakeredis.FakeRedis(server=server(url))


def async_client(url: str) -> Any:
    """An asyncio client of a memory:// URL."""
    return fakeredis.FakeAsyncRedis(server=server(url))
