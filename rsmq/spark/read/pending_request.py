"""
Requests whose replies are read later, so that Redis works while the task does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from redis.exceptions import RedisError, ResponseError


def read_replies(connection: Any, number: int) -> list[Any]:
    """
    Read the replies of a request.

    Raises:
        ResponseError: a reply is an error. All replies have been read.
    """
    replies = []
    for _ in range(number):
        try:
            replies.append(connection.read_response(disable_decoding=True))
        except ResponseError as error:
            replies.append(error)
    for reply in replies:
        if isinstance(reply, ResponseError):
            raise reply
    return replies


class PendingRequest:
    """Packed commands that change nothing, on their way, on a connection of their own."""

    def __init__(
        self, pool: Any, packed: list[Any], number: int, repeat: Callable[[], list[Any]]
    ) -> None:
        """
        Send the commands.

        Args:
            pool: the pool of the connection.
            number: the number of commands.
            repeat: sends the commands again, with retries, and returns their replies. It is called
                after a failure.

        Raises:
            RedisError: no connection can be opened.
        """
        self._pool = pool
        self._number = number
        self._repeat = repeat
        self._connection = pool.get_connection()
        try:
            self._connection.send_packed_command(packed)
        except (RedisError, OSError):
            self.abandon()
        except BaseException:
            self.abandon()
            raise

    def finish(self) -> list[Any]:
        """Return the replies; may be called once, and raises the errors of ``repeat``."""
        if self._connection is not None:
            try:
                replies = read_replies(self._connection, self._number)
            except ResponseError:
                self._release()
            except (RedisError, OSError):
                self.abandon()
            except BaseException:
                self.abandon()
                raise
            else:
                self._release()
                return replies
        return self._repeat()

    def abandon(self) -> None:
        """Discard replies that were not read; without an effect after ``finish``."""
        if self._connection is not None:
            self._connection.disconnect()
            self._release()

    def _release(self) -> None:
        connection, self._connection = self._connection, None
        self._pool.release(connection)
