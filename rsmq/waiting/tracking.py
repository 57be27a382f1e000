"""
The requests and replies of a tracking connection. Without I/O or clock.

The server tracks the sorted sets that are read on the connection: it reports the next change of
each, whichever client makes it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from redis.exceptions import RedisError, ResponseError

from rsmq.transport.retry import Failure, classify, code_of
from rsmq.waiting.schedule import SAFETY_SECONDS, Schedule
from rsmq.wire.jobs import ENDS
from rsmq.wire.keys import Namespace, is_job
from rsmq.wire.names import encode_name

#: The pause before the next attempt to connect if the server could not be reached.
RECONNECT_SECONDS = 0.5
#: The same if the server replied with another error than those of a server that is being replaced.
RECONNECT_AFTER_ERROR_SECONDS = 60.0
#: The largest number of replies that are processed together.
MAX_REPLIES = 1000
#: A connection that does not reply for this time is closed.
REPLY_TIMEOUT_SECONDS = 5.0
#: After this time without an answer, a server whose keys another one may get is asked for one.
GROUP_CHECK_SECONDS = 3.0
#: The largest number of queue names to look up in a second, after queues were created or deleted.
MAX_LOOKUPS_PER_SECOND = 10_000
#: The pause before the next look-up while the keys are moving to another node of a cluster.
MOVING_SECONDS = 0.3
# Encoded commands, because they are sent for thousands of queues at once.
_TIME = b"*1\r\n$4\r\nTIME\r\n"
_READ_FIRST = (
    b"*8\r\n$13\r\nZRANGEBYSCORE\r\n$%d\r\n%b\r\n$4\r\n-inf\r\n$4\r\n+inf\r\n$10\r\nWITHSCORES\r\n"
    b"$5\r\nLIMIT\r\n$1\r\n0\r\n$1\r\n1\r\n"
)
_READ_STATE = b"*3\r\n$4\r\nHGET\r\n$%d\r\n%b\r\n$5\r\nstate\r\n"
_IS_LISTED = b"*3\r\n$9\r\nSISMEMBER\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n"

#: The states of a tracked message that has ended.
_ENDS = frozenset(state.encode() for state in ENDS)


class _Request:
    """
    Commands that were sent together.

    Attributes:
        sent_at: when they were sent, or when the last of their replies arrived.
        handlers: a function for each reply that has not arrived yet.
        now_ms: the server's time; None before its reply arrived.
    """

    __slots__ = ("handlers", "now_ms", "sent_at")

    def __init__(self, sent_at: float) -> None:
        self.sent_at = sent_at
        self.handlers: deque[Callable[[Any, float], None]] = deque()
        self.now_ms: float | None = None


class Tracking:
    """
    The dialogue on one tracking connection.

    Queues are read with plain commands. In a script, each read would track all keys of the script
    again, so that the time would grow with the square of their number.

    On Redis Cluster, the keys of a namespace are in one slot, which may move to another node. Then
    the index of queues disappears here, which is reported, and the next look-up is refused.

    Attributes:
        moved: the error of a node that does not have the keys any longer; None before.
    """

    def __init__(
        self, schedule: Schedule, namespace: Namespace, *, is_of_group: bool = False
    ) -> None:
        self._schedule = schedule
        self._check_seconds = GROUP_CHECK_SECONDS if is_of_group else SAFETY_SECONDS
        self._index = namespace.queues
        self._prefix_length = len(encode_name(namespace.name)) + 1
        self._can_look_up = True  # until the server refuses it to this user
        self._look_up_at = -math.inf
        self._check_at = -math.inf  # the first request is due at once
        self._pending: deque[_Request] = deque()
        self.moved: Exception | None = None

    def next_request_at(self, now: float) -> float:
        """Return when the next request is due; the latest time checks a silent connection."""
        if self._schedule.to_read:
            return now
        if self._can_look_up and self._schedule.to_look_up:
            return min(self._look_up_at, self._check_at)
        return math.inf if self._pending else self._check_at  # a reply that is due checks, too

    def next_request(self, now: float) -> bytes:
        """Return the encoded commands that read queues and look up names."""
        self._check_at = now + self._check_seconds
        request = _Request(now)
        commands = [_TIME]
        request.handlers.append(partial(self._handle_time, request))
        for queue in self._schedule.to_read:
            if is_job(queue):
                commands.append(_READ_STATE % (len(queue), queue))
                request.handlers.append(partial(self._handle_state, queue))
            else:
                commands.append(_READ_FIRST % (len(queue), queue))
                request.handlers.append(partial(self._handle_first, request, queue))
        self._schedule.to_read.clear()
        if self._can_look_up and now >= self._look_up_at:
            for queue in self._schedule.to_look_up:
                if is_job(queue):
                    continue
                index, name = self._index, queue[self._prefix_length :]
                commands.append(_IS_LISTED % (len(index), index, len(name), name))
                request.handlers.append(partial(self._handle_listed, queue))
            self._look_up_at = now + len(self._schedule.to_look_up) / MAX_LOOKUPS_PER_SECOND
            self._schedule.to_look_up.clear()
        self._pending.append(request)
        return b"".join(commands)

    def ping(self, now: float) -> bytes:
        """
        Return a command whose reply wakes the thread that reads from the connection.

        It is one that each user of a queue may send.
        """
        request = _Request(now)
        request.handlers.append(lambda _reply, _now: None)
        self._pending.append(request)
        return _TIME

    def seconds_until_overdue(self, now: float) -> float:
        """Return the seconds until a reply is overdue; infinite if no reply is expected."""
        return self._pending[0].sent_at + REPLY_TIMEOUT_SECONDS - now if self._pending else math.inf

    def handle(self, answer: Any, now: float) -> None:
        """Process a reply, or a report of a change."""
        self._check_at = now + self._check_seconds
        changes = changes_of(answer)
        if changes is None:
            self._handle_reply(answer, now)
        elif not changes:  # all keys were flushed
            self._schedule.note_flush(now)
        for key in changes or ():
            if key == self._index:
                self._schedule.note_index_change()
            else:
                self._schedule.note_change(key, now)

    def _handle_reply(self, reply: Any, now: float) -> None:
        if self._pending:
            request = self._pending[0]
            request.sent_at = now  # of many replies the last may arrive late
            request.handlers.popleft()(reply, now)
            if not request.handlers:
                self._pending.popleft()

    def _handle_time(self, request: _Request, reply: Any, _now: float) -> None:
        if not isinstance(reply, ResponseError):
            request.now_ms = int(reply[0]) * 1000 + int(reply[1]) / 1000

    def _handle_first(self, request: _Request, queue: bytes, reply: Any, now: float) -> None:
        self._note_redirection(reply)
        if isinstance(reply, ResponseError) or request.now_ms is None:
            self._schedule.note_failed_read(queue, now)
        elif not reply:
            self._schedule.note_first_due(queue, None, now)
        else:
            score = reply[0][1] if isinstance(reply[0], list) else reply[1]
            self._schedule.note_first_due(queue, (float(score) - request.now_ms) / 1000, now)

    def _handle_state(self, record: bytes, reply: Any, now: float) -> None:
        """Note the state of a tracked message: one that has ended is like a message that is due."""
        self._note_redirection(reply)
        if isinstance(reply, ResponseError):
            self._schedule.note_failed_read(record, now)
        else:
            self._schedule.note_first_due(record, 0 if reply in _ENDS else None, now)

    def _handle_listed(self, queue: bytes, reply: Any, now: float) -> None:
        self._note_redirection(reply)
        if not isinstance(reply, ResponseError):
            self._schedule.note_listed(queue, now, is_listed=bool(reply))
        elif code_of(reply) == "MOVED":
            self._schedule.note_failed_read(queue, now)
        elif code_of(reply) == "ASK":
            self._look_up_at = now + MOVING_SECONDS
            self._schedule.to_look_up.add(queue)
        elif code_of(reply) == "NOPERM":
            self._can_look_up = False  # then waiters of a deleted queue are woken later

    def _note_redirection(self, reply: Any) -> None:
        if isinstance(reply, ResponseError) and code_of(reply) == "MOVED":
            self.moved = reply


def changes_of(answer: Any) -> list[bytes] | None:
    """Return the changed keys of a report, none for all keys; None if it is not a report."""
    if isinstance(answer, list) and answer and answer[0] == b"invalidate":
        return answer[1] or []
    return None


def reconnect_pause(error: BaseException) -> float:
    """Return the pause before the next attempt to connect; infinite if tracking is not possible."""
    # A server that is being replaced is a replica at first, or knows no owner of the slot.
    is_temporary = classify(error, is_sent=False) is Failure.NOTHING_RAN
    if isinstance(error, ResponseError) and not is_temporary:
        refused = code_of(error) in ("NOPERM", "NOPROTO") or "unknown" in str(error).lower()
        return math.inf if refused else RECONNECT_AFTER_ERROR_SECONDS
    unreachable = isinstance(error, RedisError | OSError)
    return RECONNECT_SECONDS if unreachable else RECONNECT_AFTER_ERROR_SECONDS


def tracking_options(pool: Any) -> dict[str, Any]:
    """Return the options of a connection like those of a pool that uses RESP3."""
    options = {
        name: value
        for name, value in pool.connection_kwargs.items()
        if not name.startswith(("maint_notifications", "orig_", "oss_cluster_maint"))
    }
    return {**options, "protocol": 3, "decode_responses": False, "health_check_interval": 0}
