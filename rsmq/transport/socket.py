"""
Reading and writing on the open socket of a synchronous connection.

It has those methods of redis-py's connections that ``sync.py`` uses.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import hiredis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from rsmq.transport.redis_py import make_reader, socket_of

with suppress(ImportError):  # not on Windows
    import fcntl
    import termios

_NOTHING = object()
_process = object()


def _in_child() -> None:
    global _process  # noqa: PLW0603 - another one, without a call of the system for each command
    _process = object()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)

_SOCKET = socket.socket if socket.socket.__module__ == "socket" else None
_ROOM = 65536
_MANY = 32
_LARGE = 131_072
_PIECE = 32_768
#: What is larger, bytes, may take long on a slow link: it is watched until it is sent.
LARGE_SEND = 16_384
#: How often a timeout it is looked how much is left.
LOOKS_A_TIMEOUT = 10


def unsent_bytes(connected: Any) -> int:
    """Return how many bytes the peer has not confirmed; 0 where the system does not say."""
    try:
        queued = fcntl.ioctl(connected.fileno(), termios.TIOCOUTQ, bytes(4))
    except (OSError, NameError):  # NameError: on Windows
        return 0
    return int.from_bytes(queued, sys.byteorder)


def pack(command: tuple[bytes, ...]) -> Iterable[bytes]:
    """A command as it goes over the wire."""
    if len(command) < _MANY or sum(map(len, command)) < _LARGE:
        return (hiredis.pack_command(command),)  # type: ignore[arg-type]
    return _pieces(command)


def _pieces(command: tuple[bytes, ...]) -> Iterator[bytes]:
    # One after the other: the same small memory serves for all, and large memory is slow to get.
    parts, size = [b"*%d\r\n" % len(command)], 0
    for argument in command:
        parts += b"$%d\r\n" % len(argument), argument, b"\r\n"
        size += len(argument)
        if size > _PIECE:
            yield b"".join(parts)
            parts, size = [], 0
    yield b"".join(parts)


class OwnConnection:
    """
    An open connection.

    Attributes:
        connection: redis-py's, which opened it and will close it.
    """

    def __init__(self, connection: Any) -> None:
        """Read and write what a connection of redis-py has opened."""
        self._process = _process
        self.connection = connection
        self._socket = socket_of(connection)
        # Not one of TLS or gevent: to be written without a poll() first, as Python's methods make,
        # which takes as long as the writing. (To let the system time the reading would save
        # another, but signals that come often would put its timeout off forever.)
        self._plain = os.name == "posix" and type(self._socket) is _SOCKET
        #: What TLS has decoded and not given out.
        self._pending: Callable[[], int] | None = getattr(self._socket, "pending", None)
        self._poll: Callable[[float], Any] | None = None
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            self._poll = poll.poll
        self._buffer = bytearray(_ROOM)
        self._sending = False  # perhaps still, something large
        self._replies = make_reader(connection, _NOTHING)

    def disconnect(self) -> None:
        self.connection.disconnect()

    def send_command(self, *command: bytes) -> None:
        self.send_packed_command(pack(command))

    def pack_commands(self, commands: Iterable[tuple[bytes, ...]]) -> Iterable[bytes]:
        return (piece for command in commands for piece in pack(command))

    def send_packed_command(self, pieces: Iterable[bytes]) -> None:
        size = 0
        try:
            for piece in pieces:
                if self._plain:
                    self._write(piece)
                else:
                    for at in range(0, len(piece), _ROOM):  # a timeout for each
                        self._socket.sendall(memoryview(piece)[at : at + _ROOM])
                size += len(piece)
            self._sending = size > LARGE_SEND
        except TimeoutError:
            raise RedisTimeoutError("Timeout writing to socket") from None
        except OSError as error:
            raise RedisConnectionError(f"Error while writing to socket: {error}") from None

    def read_response(
        self,
        *,
        disable_decoding: bool = True,
        disconnect_on_error: bool = True,
        push_request: bool = False,
    ) -> Any:
        """
        The next reply; reading can be taken up again after an interruption.

        Args:
            disable_decoding: for redis-py's connections; here nothing is decoded.
            disconnect_on_error: for redis-py's connections; here who asks also closes.
            push_request: True also gives out what the server says unasked.
        """
        del disable_decoding, disconnect_on_error
        while True:
            reply = self._replies.gets()
            if reply is _NOTHING:
                self._read_more()
            elif isinstance(reply, Exception):
                raise reply
            elif push_request or not isinstance(reply, hiredis.PushNotification):
                return reply

    def _read_more(self) -> None:
        try:
            if self._sending:  # the timeout begins when all is sent
                self._sending = self._wait_while_sending(self._is_readable)
            size = self._socket.recv_into(self._buffer)
        except TimeoutError:
            raise RedisTimeoutError("Timeout reading from socket") from None
        except OSError as error:
            raise RedisConnectionError(f"Error while reading from socket: {error}") from None
        if size == 0:
            raise RedisConnectionError("Connection closed by server.")
        self._replies.feed(self._buffer, 0, size)  # type: ignore[arg-type]

    def _write(self, piece: bytes) -> None:
        try:
            written = os.write(self._socket.fileno(), piece)
        except BlockingIOError:
            written = 0
        if written == len(piece):
            return
        rest = memoryview(piece)[written:]
        poll = select.poll()
        poll.register(self._socket, select.POLLOUT)
        while rest:  # not sendall, whose timeout is one for all of it
            self._wait_while_sending(lambda seconds: poll.poll(seconds * 1000))
            rest = rest[self._socket.send(rest) :]

    def _wait_while_sending(self, is_ready: Callable[[float], Any]) -> bool:
        """
        Wait until the peer has taken all that was written, or something else is ready.

        Args:
            is_ready: waits for so many seconds, and says whether it is.

        Returns:
            Whether it is; False if all is sent.

        Raises:
            TimeoutError: it has taken nothing for the whole timeout.
        """
        timeout = self._socket.gettimeout()
        unsent, progress_at = unsent_bytes(self._socket), time.monotonic()
        while timeout and unsent:
            if is_ready(timeout / LOOKS_A_TIMEOUT):
                return True
            before, unsent = unsent, unsent_bytes(self._socket)
            now = time.monotonic()
            if unsent < before:
                progress_at = now
            elif now - progress_at >= timeout:
                raise TimeoutError
        return False

    def is_idle(self) -> bool:
        """Whether nothing has come unasked, not even the connection's end."""
        return not (self._poll(0) if self._plain and self._poll else self.can_read())

    def is_inherited(self) -> bool:
        """Whether it is one of the process that this one was forked from."""
        return self._process is not _process

    def can_read(self, timeout: float = 0) -> bool:
        """Whether there is something to read, the connection's end included."""
        return self._replies.has_data() or self._is_readable(timeout)

    def _is_readable(self, timeout: float) -> bool:
        if self._pending and self._pending():
            return True
        if self._poll is None:
            return bool(select.select([self._socket], [], [], timeout)[0])
        return bool(self._poll(timeout * 1000))
