"""
Reading and writing on the open socket of a synchronous connection.

The class has the methods of redis-py's connections that ``threads`` uses.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import hiredis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from rsmq.transport.packing import pack
from rsmq.transport.redis_py import make_reader, socket_of

with suppress(ImportError):  # not on Windows
    import fcntl
    import termios

_INCOMPLETE = object()
_process_token = object()


def _renew_process_token() -> None:
    global _process_token  # noqa: PLW0603 - shows a fork without a system call for each command
    _process_token = object()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_process_token)

_PLAIN_SOCKET_TYPE = socket.socket if socket.socket.__module__ == "socket" else None
#: The size of the receive buffer, and of each write to a socket with TLS or gevent.
_BUFFER_BYTES = 65536
#: Larger sends may take long on a slow link: their progress is checked until the peer has received
#: them.
LARGE_SEND_BYTES = 16_384
#: The number of checks of that progress in the time of one timeout.
CHECKS_PER_TIMEOUT = 10


def unsent_bytes(open_socket: Any) -> int:
    """Return the number of written bytes that the peer has not confirmed; 0 if it is unknown."""
    try:
        queued = fcntl.ioctl(open_socket.fileno(), termios.TIOCOUTQ, bytes(4))
    except (OSError, ValueError, NameError, AttributeError):
        # ValueError: it is closed; NameError: on Windows; AttributeError: there is no socket
        return 0
    return int.from_bytes(queued, sys.byteorder)


class ReplyTooLong(Exception):
    """Replies have more bytes than the caller permits. The connection is of no more use."""


class SocketConnection:
    """
    An open connection whose socket is read and written directly.

    Attributes:
        connection: the connection of redis-py that opened the socket, and closes it.
        bytes_left: how many more bytes may be read before ``ReplyTooLong``; None is any number.
            ``PendingCall`` sets it for its replies.
    """

    def __init__(self, connection: Any) -> None:
        """Use the socket of an open connection of redis-py."""
        self._process_token = _process_token
        self.connection = connection
        self._socket = socket_of(connection)
        # Whether it is a socket without TLS or gevent. It is written with os.write, because the
        # methods of Python's sockets call poll() first, which takes as long as the write. (A read
        # timeout of the operating system would save the poll() before a read too. But each signal
        # would start that timeout again, so that frequent signals would delay it forever.)
        self._is_plain = os.name == "posix" and type(self._socket) is _PLAIN_SOCKET_TYPE
        #: Returns the number of bytes that TLS has decrypted and that are not read yet.
        self._pending_bytes: Callable[[], int] | None = getattr(self._socket, "pending", None)
        self._poll: Callable[[float], Any] | None = None
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            self._poll = poll.poll
        self._buffer = bytearray(_BUFFER_BYTES)
        self.bytes_left: int | None = None
        self._is_sending = False  # whether a large send may not be confirmed yet
        self._reader = make_reader(connection, _INCOMPLETE)

    def disconnect(self) -> None:
        self.connection.disconnect()

    def abort(self) -> None:
        """End the reads of other threads; the connection is of no more use, but not closed."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def send_command(self, *command: bytes) -> None:
        self.send_packed_command(pack(command))

    def send_packed_command(self, pieces: Iterable[bytes | memoryview]) -> None:
        size = 0
        try:
            for piece in pieces:
                if self._is_plain:
                    self._write(piece)
                else:
                    for start in range(0, len(piece), _BUFFER_BYTES):  # the timeout applies to each
                        self._socket.sendall(memoryview(piece)[start : start + _BUFFER_BYTES])
                size += len(piece)
            self._is_sending = size > LARGE_SEND_BYTES
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
        Return the next reply. May be called again after an interruption.

        Args:
            disable_decoding: only for redis-py's connections: replies are never decoded here.
            disconnect_on_error: only for redis-py's connections: the caller disconnects here.
            push_request: whether push messages of the server are returned too.

        Raises:
            ResponseError: the reply is an error.
            RedisConnectionError: the connection is broken.
            RedisTimeoutError: no data arrived in the time of the socket's timeout.
        """
        del disable_decoding, disconnect_on_error
        while True:
            reply = self._reader.gets()
            if reply is _INCOMPLETE:
                self._read_more()
            elif isinstance(reply, Exception):
                try:
                    raise reply
                finally:
                    del reply  # its traceback refers to this frame: a reference cycle
            elif push_request or not isinstance(reply, hiredis.PushNotification):
                return reply

    def _read_more(self) -> None:
        try:
            if self._is_sending:  # the timeout starts when all data is sent
                self._is_sending = self._wait_while_sending(self._is_readable)
            size = self._socket.recv_into(self._buffer)
        except TimeoutError:
            raise RedisTimeoutError("Timeout reading from socket") from None
        except OSError as error:
            raise RedisConnectionError(f"Error while reading from socket: {error}") from None
        if size == 0:
            raise RedisConnectionError("Connection closed by server.")
        if self.bytes_left is not None:
            self.bytes_left -= size
            if self.bytes_left < 0:
                raise ReplyTooLong
        self._reader.feed(self._buffer, 0, size)  # type: ignore[arg-type]

    def _write(self, piece: bytes | memoryview) -> None:
        try:
            written = os.write(self._socket.fileno(), piece)
        except BlockingIOError:
            written = 0
        if written == len(piece):
            return
        remaining = memoryview(piece)[written:]
        poll = select.poll()
        poll.register(self._socket, select.POLLOUT)
        while remaining:  # not sendall, whose timeout applies to all data together
            self._wait_while_sending(lambda seconds: poll.poll(seconds * 1000))
            remaining = remaining[self._socket.send(remaining) :]

    def _wait_while_sending(self, is_ready: Callable[[float], Any]) -> bool:
        """
        Wait until the peer has confirmed all written data, or until ``is_ready`` returns true.

        Args:
            is_ready: waits at most the given number of seconds for another event, and returns
                whether it has occurred.

        Returns:
            Whether ``is_ready`` returned true; False if all data is confirmed.

        Raises:
            TimeoutError: the peer confirmed nothing for the whole timeout.
        """
        timeout = self._socket.gettimeout()
        unsent, progress_at = unsent_bytes(self._socket), time.monotonic()
        while timeout and unsent:
            if is_ready(timeout / CHECKS_PER_TIMEOUT):
                return True
            before, unsent = unsent, unsent_bytes(self._socket)
            now = time.monotonic()
            if unsent < before:
                progress_at = now
            elif now - progress_at >= timeout:
                raise TimeoutError
        return False

    def is_idle(self) -> bool:
        """Return whether there is no unexpected data and the peer has not closed the connection."""
        return not (self._poll(0) if self._is_plain and self._poll else self.can_read())

    def is_inherited(self) -> bool:
        """Return whether the parent process opened this connection before a fork."""
        return self._process_token is not _process_token

    def can_read(self, timeout: float = 0) -> bool:
        """Return whether there is data to read, or the peer has closed the connection."""
        return self._reader.has_data() or self._is_readable(timeout)

    def _is_readable(self, timeout: float) -> bool:
        if self._pending_bytes and self._pending_bytes():
            return True
        if self._poll is None:
            return bool(select.select([self._socket], [], [], timeout)[0])
        return bool(self._poll(timeout * 1000))
