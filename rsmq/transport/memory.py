"""
``memory://``: a Redis inside this process, for development and tests (fakeredis).

Its data exist as long as the process. Its clock is that of the process, so that freezegun can set
it. The module is imported only when such a URL is opened.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import redis
import redis.asyncio

from rsmq.errors import MissingExtra
from rsmq.transport.options import create_pool

try:
    import fakeredis
    import lupa  # noqa: F401 - fakeredis needs it for scripts, and fails only when it runs one
except ImportError as error:
    raise MissingExtra("embedded", "memory://") from error


class _CompiledScripts:
    """
    A Lua runtime that compiles each script once.

    fakeredis compiles a script and collects all garbage at each call, and lists all globals before
    each command.
    """

    _COLLECT = "collectgarbage()"

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self._compiled: dict[bytes, Any] = {}
        self._count_globals = runtime.eval(
            "function() local n = 0 for _ in next, _G do n = n + 1 end return n end"
        )
        self._globals: dict[bytes, None] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    def execute(self, script: Any) -> Any:
        if script == self._COLLECT:
            return None  # Lua collects garbage by itself
        run = self._compiled.get(script)
        if run is None:
            run = self._compiled[script] = self._runtime.compile(script)
        return run()

    def globals(self) -> Any:
        # fakeredis refuses scripts that have added one; none replaces one.
        if self._count_globals() != len(self._globals):
            self._globals = dict.fromkeys(self._runtime.globals().keys())
        return self._globals


class _Server(fakeredis.FakeServer):
    """A server whose Lua runtime, which fakeredis creates for its first script, compiles once."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, _CompiledScripts(value) if name == "_lua_runtime" else value)


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
    name = url.removeprefix("memory://").partition("?")[0]
    if not name:
        return _Server(server_type="redis")
    with _lock:
        return _servers.setdefault(name, _Server(server_type="redis"))


def client(url: str, **options: Any) -> Any:
    """
    Return a new synchronous client of a memory:// URL.

    Args:
        url: the URL.
        options: options of redis-py's connections. They are checked as those of ``rediss://``, and
            have no effect.

    Raises:
        InvalidFormat: there is no such option.
        InvalidValue: a timeout is not a positive number of seconds.
    """
    _check_options(url, options, redis.Redis)
    return fakeredis.FakeRedis(server=server(url))


def async_client(url: str, **options: Any) -> Any:
    """Return a new asyncio client of a memory:// URL, as ``client`` does."""
    _check_options(url, options, redis.asyncio.Redis)
    return fakeredis.FakeAsyncRedis(server=server(url))


def _check_options(url: str, options: Mapping[str, Any], kind: Any) -> None:
    _, mark, query = url.partition("?")
    server_url = f"rediss://localhost/0{mark}{query}"
    create_pool(url, lambda: kind.from_url(server_url, **options).connection_pool)
