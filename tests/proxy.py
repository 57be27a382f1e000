"""A TCP proxy that breaks and delays connections, as networks do."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time

_SMALL = 16_384
#: A pause longer than this is not made up for: nothing was sent in it.
_IDLE_SECONDS = 1.0
#: How often a change of ``withholding`` is noticed.
_LOOK_SECONDS = 0.05


class Proxy:
    """
    A proxy in front of a server on loopback, which a test can make misbehave.

    Attributes:
        target: the port of the server, for new connections.
        spare: the number of script replies to forward before ``drop`` applies.
        drop: the number of script replies to drop; each closes its connection.
        hold: the number of script replies to drop while their connection stays open.
        cut: the number of bytes to forward of a reply that ``drop`` drops.
        delay: seconds to wait before a reply is forwarded.
        script_delay: the same for replies of scripts.
        pieces: True forwards replies byte by byte.
        rate: bytes per second in each direction; 0 is unlimited.
        stalled: True forwards nothing, and keeps all connections open.
        withholding: True forwards no reply, until it is False again.
        refuse: True closes every new connection.
        scripts: the number of script calls that were forwarded.
        muted: addresses at the server of connections whose replies are dropped.
    """

    def __init__(self, port: int, *, slow: bool = False) -> None:
        """
        Start to forward connections.

        Args:
            port: the port of the server.
            slow: True keeps the buffers of the system small, so that the client notices ``rate``.
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
        self.script_delay = 0.0
        self.pieces = False
        self.rate = 0
        self.stalled = False
        self.withholding = False
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
        """Drop all replies to the connection that has this address at the server."""
        self.muted.add(address)

    def close_connections(self) -> None:
        """Close every open connection."""
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

    def _read_size(self) -> int:
        return max(self.rate // 200, 1) if self.rate else 1 << 20

    def _limit_rate(self, data: bytes, due: float) -> float:
        """Wait until data may be forwarded, after data that was due; return when it was due."""
        if not self.rate:
            return due
        now = time.monotonic()
        # Counted from when the data before was due, because a busy machine sleeps too long.
        due = (due if now - due < _IDLE_SECONDS else now) + len(data) / self.rate
        time.sleep(max(0.0, due - now))
        return due

    def _count_script(self) -> tuple[bool, bool]:
        """Count a script call, and return whether ``drop`` and ``hold`` apply to its reply."""
        with self._lock:
            self.scripts += 1
            is_dropped = self.drop > 0 == self.spare
            self.drop -= is_dropped
            self.spare -= self.spare > 0
            is_held = self.hold > 0
            self.hold -= is_held
        return is_dropped, is_held

    def _send_reply(self, client: socket.socket, data: bytes) -> None:
        if self.pieces:
            for byte in data:
                client.sendall(bytes([byte]))
        else:
            client.sendall(data)

    def _forward(self, client: socket.socket) -> None:
        is_dropped = is_held = is_script = False
        due = 0.0
        address = ("127.0.0.1", self.target)
        # A server that is away closes the connection, as it does without a proxy.
        with (
            client,
            contextlib.suppress(OSError),
            socket.create_connection(address) as server,
        ):
            if self._slow:
                server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL)
            while True:
                sources = [client] if self.withholding else [client, server]
                readable, _, _ = select.select(sources, [], [], _LOOK_SECONDS)
                while self.stalled:
                    time.sleep(0.01)
                size = self._read_size()
                if client in readable:
                    data = client.recv(size)
                    if not data:
                        return
                    due = self._limit_rate(data, due)
                    is_script = b"EVAL" in data
                    if is_script:
                        drops, is_held = self._count_script()
                        # Another call may come before the reply to the one whose reply is dropped.
                        is_dropped = is_dropped or drops
                    server.sendall(data)
                if server in readable and not self.withholding:
                    data = server.recv(size)
                    if not data:
                        return
                    due = self._limit_rate(data, due)
                    if delay := (is_script and self.script_delay) or self.delay:
                        time.sleep(delay)
                    if is_held or "{}:{}".format(*server.getsockname()) in self.muted:
                        continue
                    if is_dropped:
                        client.sendall(data[: self.cut])
                        return
                    self._send_reply(client, data)
