"""
The decisions of a watcher: when it connects, asks, disconnects, sleeps and ends.

Without I/O or clock. ``threads.py`` and ``asyncio_.py`` carry the decisions out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from redis.exceptions import TimeoutError as RedisTimeoutError

from rsmq.transport.topology.address import Address
from rsmq.waiting.schedule import Schedule
from rsmq.waiting.tracking import RECONNECT_SECONDS, Tracking, reconnect_pause
from rsmq.wire.keys import Namespace

#: A watcher without waiters ends after this time.
IDLE_SECONDS = 10.0
#: The pause between two looks at the topology, which calls of the same client may have changed.
TOPOLOGY_CHECK_SECONDS = 1.0


class Link(Enum):
    """The state of the tracking connection."""

    ABSENT = auto()
    CONNECTING = auto()
    OPEN = auto()


class Action(Enum):
    """The next action of a watcher."""

    CONNECT = auto()
    SEND = auto()
    DISCONNECT = auto()
    SLEEP = auto()
    END = auto()


@dataclass(slots=True, frozen=True)
class Step:
    """
    The next action of a watcher.

    Attributes:
        seconds: for SLEEP: how long at most.
        request: for SEND: the encoded commands.
        error: for DISCONNECT: why.
    """

    action: Action
    seconds: float = 0.0
    request: bytes = b""
    error: Exception | None = None


class WatcherState:
    """
    The schedule of a watcher, its dialogue with the server, and the state of its connection.

    Not thread-safe: the watcher makes calls one after another.

    Attributes:
        schedule: the waiters.
        tracking: the dialogue on the current connection.
    """

    def __init__(
        self,
        namespace: Namespace,
        now: float,
        *,
        address_of: Callable[[bytes], Address | None],
    ) -> None:
        """
        Create the state of a watcher without a connection.

        Args:
            namespace: the namespace of the queues.
            address_of: returns the server that has a key, as far as it is known.
        """
        self.schedule = Schedule(is_connecting=True)
        self.tracking = Tracking(self.schedule, namespace)
        self._namespace = namespace
        self._address_of = address_of
        #: The server of the connection; None if no other one can have the keys.
        self._address: Address | None = None
        self._link = Link.ABSENT
        self._connect_at = now
        self._idle_since = now

    def begin(self, now: float) -> None:
        """Note that the watcher starts to work."""
        self._idle_since = now

    def next_step(self, now: float) -> Step:
        """Wake the waiters that are due, and return the next step."""
        if self.schedule:
            self._idle_since = now
        elif now - self._idle_since >= IDLE_SECONDS:
            return Step(Action.END)
        until = min(self.schedule.wake_due(now), self._idle_since + IDLE_SECONDS)
        if self._link is Link.ABSENT:
            if now >= self._connect_at:
                self._link = Link.CONNECTING
                return Step(Action.CONNECT)
            until = min(until, self._connect_at)
        elif self._link is Link.OPEN:
            if self.tracking.moved is not None or self._is_elsewhere():
                return Step(Action.DISCONNECT, error=self.tracking.moved)
            request = self.next_request(now)
            if request:
                return Step(Action.SEND, request=request)
            overdue_in = self.tracking.seconds_until_overdue(now)
            if overdue_in <= 0:
                error = RedisTimeoutError("The server does not reply.")
                return Step(Action.DISCONNECT, error=error)
            until = min(until, now + overdue_in, self._next_check_at(now))
        return Step(Action.SLEEP, max(0.0, until - now))

    def next_request(self, now: float) -> bytes:
        """Return the encoded commands that are due; empty if none are, or without connection."""
        if self._link is Link.OPEN and self.tracking.next_request_at(now) <= now:
            return self.tracking.next_request(now)
        return b""

    def _next_check_at(self, now: float) -> float:
        """Return when to send the next request, or to look at the topology again."""
        look_at = math.inf if self._address is None else now + TOPOLOGY_CHECK_SECONDS
        return min(look_at, self.tracking.next_request_at(now))

    def _is_elsewhere(self) -> bool:
        """Return whether a call has learned that another server has the keys."""
        if self._address is None or not self.schedule:
            return False
        return self._address_of(self._namespace.queues) not in (self._address, None)

    def note_connected(self, now: float, connection: Any) -> None:
        """
        Note that the tracking connection is open.

        Args:
            connection: the connection of redis-py.
        """
        is_of_group = self._address_of(self._namespace.queues) is not None
        self._address = Address(connection.host, connection.port) if is_of_group else None
        self._link = Link.OPEN
        self._connect_at = now + RECONNECT_SECONDS  # if it breaks
        self.tracking = Tracking(self.schedule, self._namespace, is_of_group=is_of_group)
        self.schedule.start_tracking(now)

    def note_connect_failed(self, error: BaseException, now: float) -> None:
        """Note that connecting failed; the receives of the waiters raise the error."""
        self._link = Link.ABSENT
        self._connect_at = now + reconnect_pause(error)
        self.schedule.is_connecting = False

    def note_disconnected(self, now: float) -> None:
        """Note that the connection is closed, or that connecting was given up."""
        if self._link is Link.CONNECTING:
            self._connect_at = now
        elif self._link is Link.OPEN:
            self.schedule.stop_tracking(now)
        self._link = Link.ABSENT
