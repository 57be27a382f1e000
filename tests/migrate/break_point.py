"""Connections that break permanently at a chosen request, as when the process is killed there."""

from __future__ import annotations

import contextlib
import socket
import threading

from rsmq import RSMQ
from tests.migrate.keyed_server import Server
from tests.proxy import Proxy


class BreakPoint:
    """
    A request at which the connections of several proxies break.

    Attributes:
        request: number of the last request, counted from 1; 0 means never.
        executed: whether that request still reaches the server; its reply is dropped.
        count: number of requests so far.
    """

    def __init__(self, request=0, *, executed=False):
        self.request = request
        self.executed = executed
        self.count = 0
        self._lock = threading.Lock()

    @property
    def has_broken(self):
        return 0 < self.request <= self.count

    def next(self):
        """Count a request; return whether it is forwarded, and whether its reply is."""
        with self._lock:
            self.count += 1
            if not self.has_broken:
                return True, True
            return self.executed and self.count == self.request, False


class BreakingProxy(Proxy):
    """A proxy for one server, whose connections break at a break point."""

    def __init__(self, port, break_point):
        self._break_point = break_point
        super().__init__(port)

    def connect(self, ns):
        """Return queues and keys behind the proxy, with a client that does not retry."""
        return Server(RSMQ.from_url(self.url, ns=ns, retry_deadline=0, strict_names=False))

    def _forward(self, client):
        server = socket.create_connection(("127.0.0.1", self.target))
        with client, server, contextlib.suppress(OSError):
            threading.Thread(target=self._answer, args=(client, server), daemon=True).start()
            while data := client.recv(1 << 20):
                is_forwarded, is_answered = self._break_point.next()
                if not is_answered:
                    client.shutdown(socket.SHUT_RDWR)
                if is_forwarded:
                    server.sendall(data)
                if not is_answered:
                    return

    @staticmethod
    def _answer(client, server):
        with contextlib.suppress(OSError):
            while data := server.recv(1 << 20):
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)
