"""
A channel between a worker and a child process: messages as msgpack with their lengths in front.
"""

from __future__ import annotations

import select
import socket
import struct
from typing import Any

import msgpack

_LENGTH = struct.Struct(">I")


class Channel:
    """
    One end of a pair of sockets.

    ``receive`` and ``send`` may be called in two threads; each of them in one thread at a time.
    """

    def __init__(self, own: socket.socket) -> None:
        self._socket = own
        own.setblocking(True)

    def send(self, message: Any) -> None:
        """
        Send a message; wait until the socket has room for it.

        Raises:
            OSError: the other end is closed.
        """
        packed = msgpack.packb(message, unicode_errors="surrogateescape")
        self._socket.sendall(_LENGTH.pack(len(packed)) + packed)

    def receive(self) -> Any:
        """
        Wait for a message, and return it.

        Raises:
            EOFError, OSError: the other end is closed.
        """
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        return msgpack.unpackb(
            self._read(length), strict_map_key=False, unicode_errors="surrogateescape"
        )

    def _read(self, size: int) -> bytes:
        parts = bytearray(size)
        view, filled = memoryview(parts), 0
        while filled < size:
            count = self._socket.recv_into(view[filled:])
            if not count:
                raise EOFError("the other end is closed")
            filled += count
        return bytes(parts)

    def has_message(self, seconds: float) -> bool:
        """Wait for a message or the end, at most so long. Return whether one is there."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(max(seconds, 0) * 1000))

    def has_room(self) -> bool:
        """Return whether a short message can be sent without waiting."""
        poll = select.poll()
        poll.register(self._socket, select.POLLOUT)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Close this end; the other end receives EOFError."""
        self._socket.close()
