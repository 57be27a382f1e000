"""A client of either kind, behind a proxy that breaks connections."""

from __future__ import annotations

import asyncio
import itertools

import pytest
import redis
import redis.asyncio

from rsmq import RSMQ, AsyncRSMQ
from tests.blocking import Blocking
from tests.proxy import Proxy

_numbers = itertools.count()


class Broken:
    """A namespace of the real server: clients that come through the proxy, keys that don't."""

    def __init__(self, face, server):
        self.face = face
        self.server = server
        self.proxy = Proxy(server.port)
        self.ns = f"f{next(_numbers)}"
        self.raw = server.raw()
        self.runner = asyncio.Runner() if face == "asyncio" else None
        self._closing = [self.raw.close]

    def opened(self, **options):
        """A client that opens its own connections."""
        kind = RSMQ if self.runner is None else AsyncRSMQ
        return self._faced(kind.from_url(self.proxy.url, ns=self.ns, **options))

    def given(self, **options):
        """A client around one of redis-py, with redis-py's own retries left as they are."""
        if self.runner is None:
            given = redis.Redis(port=self.proxy.port, **options)
            self._closing.append(given.close)
            return RSMQ(given, ns=self.ns)
        given = redis.asyncio.Redis(port=self.proxy.port, **options)
        self._closing.append(lambda: self.runner.run(given.aclose()))
        return self._faced(AsyncRSMQ(given, ns=self.ns))

    def _faced(self, client):
        faced = client if self.runner is None else Blocking(self.runner, client)
        self._closing.append(faced.close)
        return faced

    def bodies(self, qname):
        """What is stored of messages: id to body."""
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
def broken(request, server):
    broken = Broken(request.param, server)
    yield broken
    broken.close()


@pytest.fixture(params=["opened", "given"])
def rsmq(request, broken):
    """A warm client: connected, its scripts known to the server."""
    client = getattr(broken, request.param)()
    client.create_queue("q")
    client.send_message("q", "warm")
    client.delete_message(client.receive_message("q"))
    client.send_message("q", "warm")
    client.pop_message("q")
    return client
