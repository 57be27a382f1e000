"""Connections that end for good at a given request, as those of a process that is killed there."""

from __future__ import annotations

import contextlib
import socket
import threading

import redis

from rsmq import RSMQ
from rsmq.migrate import Server
from tests.proxy import Proxy


class Fuse:
    """
    What several proxies share.

    Attributes:
        at: the request that is the last one, counted from 1; 0 is never.
        executed: whether it still reaches the server; its answer does not come back.
        count: how many requests there were.
    """

    def __init__(self, at=0, *, executed=False):
        self.at = at
        self.executed = executed
        self.count = 0
        self._lock = threading.Lock()

    @property
    def blown(self):
        return 0 < self.at <= self.count

    def next(self):
        """Count a request; whether it goes through, and whether its answer does."""
        with self._lock:
            self.count += 1
            if not self.blown:
                return True, True
            return self.executed and self.count == self.at, False


class Fused(Proxy):
    """A proxy before one server."""

    def __init__(self, port, fuse):
        self._fuse = fuse
        super().__init__(port)

    def opened(self, ns):
        """Queues and keys behind it, of a client that tries nothing again."""
        retry = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
        raw = redis.Redis(port=self.port, protocol=2, retry=retry)
        return Server(RSMQ.from_url(self.url, ns=ns, retry_deadline=0, strict_names=False), raw)

    def _forward(self, client):
        server = socket.create_connection(("127.0.0.1", self.target))
        with client, server, contextlib.suppress(OSError):
            threading.Thread(target=self._answer, args=(client, server), daemon=True).start()
            while data := client.recv(1 << 20):
                reaches, answered = self._fuse.next()
                if not answered:
                    client.shutdown(socket.SHUT_RDWR)
                if reaches:
                    server.sendall(data)
                if not answered:
                    return

    @staticmethod
    def _answer(client, server):
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 20):
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)
