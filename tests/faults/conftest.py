"""Clients behind a proxy that breaks connections, and the engines."""

from __future__ import annotations

import asyncio
import itertools

import pytest
import redis
import redis.asyncio

from rsmq import RSMQ, AsyncRSMQ
from tests.blocking import Blocking
from tests.proxy import Proxy
from tests.scale import ENGINE_SHARES

_numbers = itertools.count()


class Link:
    """
    A namespace of a server, and a proxy through which its clients connect.

    Attributes:
        mode: "sync" or "asyncio", the kind of its clients.
        server: the server.
        proxy: the proxy, which a test can make misbehave.
        ns: the namespace.
        raw: a client of redis-py without the proxy, to read and write raw keys.
        runner: the event loop of asyncio clients.
    """

    def __init__(self, mode, server):
        self.mode = mode
        self.server = server
        self.proxy = Proxy(server.port)
        self.ns = f"f{next(_numbers)}"
        self.raw = server.raw()
        self.runner = asyncio.Runner() if mode == "asyncio" else None
        self._closing = [self.raw.close]

    def open_client(self, **options):
        """Return a client that opens its own connections."""
        kind = RSMQ if self.runner is None else AsyncRSMQ
        return self._make_blocking(kind.from_url(self.proxy.url, ns=self.ns, **options))

    def wrap_redis_py(self, **options):
        """Return a client that uses a client of redis-py, with the retries of redis-py."""
        if self.runner is None:
            inner = redis.Redis(port=self.proxy.port, **options)
            self._closing.append(inner.close)
            return RSMQ(inner, ns=self.ns)
        inner = redis.asyncio.Redis(port=self.proxy.port, **options)
        self._closing.append(lambda: self.runner.run(inner.aclose()))
        return self._make_blocking(AsyncRSMQ(inner, ns=self.ns))

    def _make_blocking(self, client):
        blocking = client if self.runner is None else Blocking(self.runner, client)
        self._closing.append(blocking.close)
        return blocking

    def bodies(self, qname):
        """Return the stored body of each id."""
        fields = self.raw.hgetall(f"{self.ns}:{qname}:Q")
        return {id.decode(): body for id, body in fields.items() if len(id) == 32}

    def scores(self, qname):
        return {
            id.decode(): score
            for id, score in self.raw.zrange(f"{self.ns}:{qname}", 0, -1, withscores=True)
        }

    def close(self):
        for close in reversed(self._closing):
            close()
        if self.runner is not None:
            self.runner.close()
        self.proxy.close()


@pytest.fixture(params=["sync", "asyncio"])
def link(request, server):
    link = Link(request.param, server)
    yield link
    link.close()


@pytest.fixture(params=["open_client", "wrap_redis_py"])
def rsmq(request, link):
    """A client that is connected, and whose scripts the server has."""
    client = getattr(link, request.param)()
    client.create_queue("q")
    client.send_message("q", "warm")
    client.delete_message(client.receive_message("q"))
    client.send_message("q", "warm")
    client.pop_message("q")
    return client


@pytest.fixture(scope="module", params=ENGINE_SHARES)
def engine(request):
    """The name of an engine."""
    return request.param
