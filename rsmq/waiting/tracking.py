"""
The dialogue of a tracking connection: what is asked, and what the replies mean.

The connection tracks the sorted sets that are read on it, so that the server reports the next
change of each, whoever makes it. This module does no I/O and reads no clock.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from redis.exceptions import RedisError, ResponseError

from rsmq.transport.retry import code_of
from rsmq.waiting import schedule
from rsmq.waiting.schedule import Board
from rsmq.wire.keys import Namespace
from rsmq.wire.names import encode_name

#: Seconds until the next attempt to connect, where the server could not be reached, and where it
#: answered with an error that may pass.
RECONNECT = 0.5
RECONSIDER = 60.0
#: Seconds after which a connection that does not answer is given up.
SILENCE = 5.0
#: How many names of queues are looked up in a second at most, after queues were made or deleted.
NAMES_A_SECOND = 10_000
# The commands as they go over the wire: they are made for thousands of queues at once.
_TIME = b"*1\r\n$4\r\nTIME\r\n"
_PING = b"*1\r\n$4\r\nPING\r\n"
_FIRST = (
    b"*8\r\n$13\r\nZRANGEBYSCORE\r\n$%d\r\n%b\r\n$4\r\n-inf\r\n$4\r\n+inf\r\n$10\r\nWITHSCORES\r\n"
    b"$5\r\nLIMIT\r\n$1\r\n0\r\n$1\r\n1\r\n"
)
_IS_LISTED = b"*3\r\n$9\r\nSISMEMBER\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n"


class _Request:
    """
    Commands that were sent together.

    Attributes:
        sent_at: when they were sent.
        expected: for each reply that is still to come, what takes it in.
        now_ms: the server's time, once it has come.
    """

    __slots__ = ("expected", "now_ms", "sent_at")

    def __init__(self, sent_at: float) -> None:
        self.sent_at = sent_at
        self.expected: deque[Callable[[Any, float], None]] = deque()
        self.now_ms: float | None = None


class Tracking:
    """
    What the tracking connection is asked, and what it says.

    A queue is read by a plain command, which orders the news of its next change. In a script, each
    read would order it for all keys of the script again: the time would grow with their square.
    """

    def __init__(self, board: Board, namespace: Namespace) -> None:
        self._board = board
        self._namespace = namespace
        self._prefix = len(encode_name(namespace.name)) + 1
        self._asks_names = True  # until this user turns out not to be allowed to
        self._names_at = -math.inf
        self._silent_at = -math.inf  # the first request comes at once
        self._pending: deque[_Request] = deque()

    def next_request_at(self, now: float) -> float:
        """When there is something to be asked; at the latest when nothing was heard for a time."""
        if self._board.unread:
            return now
        if self._asks_names and self._board.unnamed:
            return min(self._names_at, self._silent_at)
        return self._silent_at

    def next_request(self, now: float) -> bytes:
        """The commands that read what is to be read, as they go over the wire."""
        self._silent_at = now + schedule.SAFETY
        request = _Request(now)
        commands = [_TIME]
        request.expected.append(partial(self._time, request))
        for queue in self._board.unread:
            commands.append(_FIRST % (len(queue), queue))
            request.expected.append(partial(self._first, request, queue))
        self._board.unread.clear()
        if self._asks_names and now >= self._names_at:
            index = self._namespace.queues
            for queue in self._board.unnamed:
                name = queue[self._prefix :]
                commands.append(_IS_LISTED % (len(index), index, len(name), name))
                request.expected.append(partial(self._listed, queue))
            self._names_at = now + len(self._board.unnamed) / NAMES_A_SECOND
            self._board.unnamed.clear()
        self._pending.append(request)
        return b"".join(commands)

    def ping(self, now: float) -> bytes:
        """A command whose reply wakes whoever reads the connection."""
        request = _Request(now)
        request.expected.append(lambda _reply, _now: None)
        self._pending.append(request)
        return _PING

    def seconds_until_overdue(self, now: float) -> float:
        """Seconds until the connection must have answered; infinite if it has."""
        return self._pending[0].sent_at + SILENCE - now if self._pending else math.inf

    def handle(self, said: Any, now: float) -> None:
        """Take in a reply or a message of the server."""
        self._silent_at = now + schedule.SAFETY
        changes = changes_of(said)
        if changes is None:
            self._answered(said, now)
        elif not changes:  # all keys were flushed
            self._board.everything_changed(now)
        for key in changes or ():
            if key == self._namespace.queues:
                self._board.names_changed()
            else:
                self._board.changed(key, now)

    def _answered(self, reply: Any, now: float) -> None:
        if self._pending:
            request = self._pending[0]
            request.sent_at = now  # it answers: of many replies the last may come late
            request.expected.popleft()(reply, now)
            if not request.expected:
                self._pending.popleft()

    def _time(self, request: _Request, reply: Any, _now: float) -> None:
        if not isinstance(reply, ResponseError):
            request.now_ms = int(reply[0]) * 1000 + int(reply[1]) / 1000

    def _first(self, request: _Request, queue: bytes, reply: Any, now: float) -> None:
        if isinstance(reply, ResponseError) or request.now_ms is None:
            self._board.not_read(queue, now)
        elif not reply:
            self._board.was_read(queue, None, now)
        else:
            score = reply[0][1] if isinstance(reply[0], list) else reply[1]
            self._board.was_read(queue, (float(score) - request.now_ms) / 1000, now)

    def _listed(self, queue: bytes, reply: Any, now: float) -> None:
        if not isinstance(reply, ResponseError):
            self._board.was_listed(queue, bool(reply), now)
        elif code_of(reply) == "NOPERM":
            self._asks_names = False  # then a deleted queue is noticed later


def changes_of(said: Any) -> list[bytes] | None:
    """The keys that the server says have changed, none for all of them; None for anything else."""
    if isinstance(said, list) and said and said[0] == b"invalidate":
        return said[1] or []
    return None


def retry_tracking(error: BaseException) -> float:
    """Seconds until tracking is tried again after this error; infinite if it will never work."""
    if isinstance(error, ResponseError):
        refused = code_of(error) in ("NOPERM", "NOPROTO") or "unknown" in str(error).lower()
        return math.inf if refused else RECONSIDER
    return RECONNECT if isinstance(error, RedisError | OSError) else RECONSIDER


def tracking_options(pool: Any) -> dict[str, Any]:
    """Options for one more connection like those of a pool, which speaks RESP3."""
    options = {
        name: value
        for name, value in pool.connection_kwargs.items()
        if not name.startswith(("maint_notifications", "orig_", "oss_cluster_maint"))
    }
    return {**options, "protocol": 3, "decode_responses": False, "health_check_interval": 0}
