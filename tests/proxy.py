"""A TCP proxy that does to connections what networks do."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time

_SMALL = 16_384


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
        rate: bytes a second in each direction; 0 is as fast as can be.
        stalled: True forwards nothing more, and keeps all connections open.
        refuse: True closes every new connection at once.
        scripts: how many script calls went through to the server.
        muted: the server's addresses of connections whose replies are swallowed from now on.
    """

    def __init__(self, port: int, *, slow: bool = False) -> None:
        """
        Start to forward.

        Args:
            port: the server's.
            slow: True keeps the system's buffers small, so that rate is what the client sees.
        """
        self.target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._slow = slow
        if slow:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL)
        self.port = self._listener.getsockname()[1]
        self.spare = 0
        self.drop = 0
        self.hold = 0
        self.cut = 0
        self.delay = 0.0
        self.pieces = False
        self.rate = 0
        self.stalled = False
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

    def _size(self) -> int:
        return max(self.rate // 200, 1) if self.rate else 1 << 20

    def _wait_for(self, data: bytes) -> None:
        if self.rate:
            time.sleep(len(data) / self.rate)

    def _script(self) -> tuple[bool, bool]:
        """Count a script; whether its reply is dropped, and whether it is swallowed."""
        with self._lock:
            self.scripts += 1
            doomed = self.drop > 0 == self.spare
            self.drop -= doomed
            self.spare -= self.spare > 0
            silent = self.hold > 0
            self.hold -= silent
        return doomed, silent

    def _answer(self, client: socket.socket, data: bytes) -> None:
        if self.pieces:
            for byte in data:
                client.sendall(bytes([byte]))
        else:
            client.sendall(data)

    def _forward(self, client: socket.socket) -> None:
        server = socket.create_connection(("127.0.0.1", self.target))
        if self._slow:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL)
        doomed = silent = False
        with client, server, contextlib.suppress(OSError):
            while True:
                readable, _, _ = select.select([client, server], [], [])
                while self.stalled:
                    time.sleep(0.01)
                size = self._size()
                if client in readable:
                    data = client.recv(size)
                    if not data:
                        return
                    self._wait_for(data)
                    if b"EVAL" in data:
                        doomed, silent = self._script()
                    server.sendall(data)
                if server in readable:
                    data = server.recv(size)
                    if not data:
                        return
                    self._wait_for(data)
                    if self.delay:
                        time.sleep(self.delay)
                    if silent or "{}:{}".format(*server.getsockname()) in self.muted:
                        continue
                    if doomed:
                        client.sendall(data[: self.cut])
                        return
                    self._answer(client, data)
