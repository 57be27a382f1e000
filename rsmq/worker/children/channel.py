"""
A channel between a worker and a child process: messages as msgpack with their lengths in front.
"""

from __future__ import annotations

import math
import select
import socket
import struct
import time
from typing import Any

import msgpack

_LENGTH = struct.Struct(">I")
_CHUNK_BYTES = 262_144


class Channel:
    """
    One end of a pair of sockets.

    One thread may call ``send`` while another one calls ``receive`` and ``has_message``. No thread
    waits for a message of which only a part has arrived, unless it calls ``receive``.
    """

    def __init__(self, own: socket.socket) -> None:
        self._socket = own
        own.setblocking(False)
        self._incoming = bytearray()
        self._is_at_end = False

    def send(self, message: Any, deadline: float = math.inf) -> None:
        """
        Send a message; wait until the socket has room for it.

        Args:
            message: values of msgpack.
            deadline: monotonic seconds.

        Raises:
            TimeoutError: the deadline is over. A part may be sent, so the channel is of no more
                use.
            OSError: the other end is closed.
            TypeError, ValueError, OverflowError: the message can't be packed; nothing is sent.
        """
        packed = msgpack.packb(message, unicode_errors="surrogatepass")
        unsent = memoryview(_LENGTH.pack(len(packed)) + packed)
        while unsent:
            if not self._wait(select.POLLOUT, deadline - time.monotonic()):
                raise TimeoutError("the other end does not read")
            try:
                unsent = unsent[self._socket.send(unsent) :]
            except BlockingIOError:
                continue

    def receive(self) -> Any:
        """
        Wait for a message, and return it.

        Raises:
            EOFError, OSError: the other end is closed.
        """
        while not self.has_message(math.inf):
            pass
        size = self._message_size()
        if size is None:
            raise EOFError("the other end is closed")
        packed = self._incoming[_LENGTH.size : size]
        del self._incoming[:size]
        return msgpack.unpackb(packed, strict_map_key=False, unicode_errors="surrogatepass")

    def has_message(self, seconds: float) -> bool:
        """
        Wait for a complete message or the end, at most so long. Return whether one is there.

        Raises:
            OSError: the other end is closed.
        """
        deadline = time.monotonic() + max(seconds, 0)
        while self._message_size() is None and not self._is_at_end:
            if not self._wait(select.POLLIN, deadline - time.monotonic()):
                return False
            try:
                chunk = self._socket.recv(_CHUNK_BYTES)
            except BlockingIOError:
                continue
            self._incoming += chunk
            self._is_at_end = not chunk
        return True

    def _message_size(self) -> int | None:
        """Return the size of the next message with its length; None if it is not complete."""
        if len(self._incoming) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._incoming)
        size: int = _LENGTH.size + length
        return size if len(self._incoming) >= size else None

    def has_room(self) -> bool:
        """Return whether a message of some kilobytes can be sent without waiting."""
        return self._wait(select.POLLOUT, 0)

    def _wait(self, event: int, seconds: float) -> bool:
        """Wait until the socket can be read or written, at most so long. Return whether it can."""
        poll = select.poll()
        poll.register(self._socket, event)
        return bool(poll.poll(None if seconds == math.inf else max(math.ceil(seconds * 1000), 0)))

    def close(self) -> None:
        """Close this end; the other end receives EOFError."""
        self._socket.close()
