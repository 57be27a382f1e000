"""A TCP proxy that does to connections what networks do."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time


class Proxy:
    """
    Forwards connections to a server on loopback.

    Attributes:
        target: the server's port, for connections from now on.
        spare: how many replies to scripts get through before any are dropped.
        drop: how many replies to scripts are still to be dropped, with their connection.
        hold: how many replies to scripts are still to be swallowed, their connection kept open.
        cut: how many bytes of a dropped reply get through before that.
        delay: seconds that each reply is held back.
        pieces: True forwards replies byte by byte.
        refuse: True closes every new connection at once.
        scripts: how many script calls went through to the server.
        muted: the server's addresses of connections whose replies are swallowed from now on.
    """

    def __init__(self, port: int) -> None:
        self.target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.spare = 0
        self.drop = 0
        self.hold = 0
        self.cut = 0
        self.delay = 0.0
        self.pieces = False
        self.refuse = False
        self.scripts = 0
        self.muted: set[str] = set()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def close(self) -> None:
        self._listener.close()
        self.close_connections()

    def mute(self, address: str) -> None:
        """Swallow all that the server says to the connection that it knows by this address."""
        self.muted.add(address)

    def close_connections(self) -> None:
        """Reset every connection that is open now."""
        with self._lock:
            connections, self._open = self._open, set()
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.refuse:
                client.close()
                continue
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open.add(client)
            threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        server = socket.create_connection(("127.0.0.1", self.target))
        doomed = silent = False
        with client, server, contextlib.suppress(OSError):
            while True:
                readable, _, _ = select.select([client, server], [], [])
                if client in readable:
                    data = client.recv(1 << 20)
                    if not data:
                        return
                    if b"EVAL" in data:
                        self.scripts += 1
                        with self._lock:
                            doomed = self.drop > 0 == self.spare
                            self.drop -= doomed
                            self.spare -= self.spare > 0
                            silent = self.hold > 0
                            self.hold -= silent
                    server.sendall(data)
                if server in readable:
                    data = server.recv(1 << 20)
                    if not data:
                        return
                    if self.delay:
                        time.sleep(self.delay)
                    if silent or "{}:{}".format(*server.getsockname()) in self.muted:
                        continue
                    if doomed:
                        client.sendall(data[: self.cut])
                        return
                    if self.pieces:
                        for byte in data:
                            client.sendall(bytes([byte]))
                    else:
                        client.sendall(data)
