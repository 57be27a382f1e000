"""
Operations whose replies are read later, so that Redis works while the program does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from redis.exceptions import RedisError, ResponseError

from rsmq.operations.operation import Operation
from rsmq.transport.commands import many_commands, reply_of
from rsmq.transport.packing import pack_all
from rsmq.transport.socket import ReplyTooLong
from rsmq.transport.threads.confirmed import read_replies
from rsmq.transport.threads.pools import ConnectionProvider

T = TypeVar("T")


class PendingCall(Generic[T]):
    """Plain commands that may run again, on their way, on a connection of their own."""

    def __init__(
        self,
        operation: Operation[T],
        find_connections: Callable[[], ConnectionProvider],
        repeat: Callable[[Operation[T]], T],
    ) -> None:
        """
        Send the commands.

        Args:
            operation: the operation, of plain commands with the retry class ALWAYS.
            find_connections: returns the connections to its server.
            repeat: runs it with retries. It is called after a failure.
        """
        self._operation = operation
        self._repeat = repeat
        self._connection: Any = None
        try:
            self._connections = find_connections()
            self._connection = self._connections.acquire(check=False, until=math.inf)
            self._connection.send_packed_command(pack_all(many_commands(operation)))
        except (RedisError, OSError):
            self.abandon()
        except BaseException:
            self.abandon()
            raise

    def finish(self) -> T:
        """Return the result; may be called once, and raises the errors of ``repeat``."""
        operation = self._operation
        if self._connection is not None:
            try:
                replies = read_replies(self._connection, len(operation.commands or ()))
            except (RedisError, OSError):
                self.abandon()
            except BaseException:
                self.abandon()
                raise
            else:
                self._release(is_usable=True)
                try:
                    return operation.parse(reply_of(operation, replies))
                except ResponseError:
                    pass  # one that names another server is followed
        return self._repeat(operation)

    def finish_within(self, most_bytes: int) -> T | None:
        """
        Return the result if its replies have at most so many bytes; may be called once.

        The bytes after that are not read, so they take no memory of this process.

        Returns:
            None if the replies are longer, or if the call failed, which is not repeated.
        """
        connection, operation = self._connection, self._operation
        if connection is None:
            return None
        connection.bytes_left = most_bytes
        try:
            replies = read_replies(connection, len(operation.commands or ()))
        except (RedisError, OSError, ReplyTooLong):
            self.abandon()
            return None
        except BaseException:
            self.abandon()
            raise
        connection.bytes_left = None
        self._release(is_usable=True)
        try:
            return operation.parse(reply_of(operation, replies))
        except ResponseError:
            return None

    def abandon(self) -> None:
        """Discard replies that were not read; without an effect after ``finish``."""
        if self._connection is not None:
            self._release(is_usable=False)

    def _release(self, *, is_usable: bool) -> None:
        connection, self._connection = self._connection, None
        self._connections.release(connection, is_usable=is_usable)
