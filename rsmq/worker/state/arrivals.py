"""
Whether the queue of a lane may have messages that are due, as the server reports.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from rsmq._sync.client import RSMQ
from rsmq.waiting.schedule import Waiter
from rsmq.wire.throttle import Limit

#: After a failure of a watcher, the worker looks at the queue again after this time.
_PAUSE_AFTER_FAILURE_SECONDS = 0.5


class Arrivals:
    """The arrivals of messages in a queue: the worker waits for them on the client's watcher."""

    def __init__(self, client: RSMQ[Any], key: bytes, wake_up: Callable[[], object]) -> None:
        """
        Make it; the queue may have due messages.

        Args:
            client: the client of the namespace.
            key: the sorted set of the queue.
            wake_up: called by another thread when messages may be due.
        """
        self._client = client
        self._key = key
        self._wake_up = wake_up
        self._waiter: Waiter | None = None
        #: Until then the worker waits although its watcher has failed.
        self._paused_until = -math.inf

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is due, as far as the worker knows. ``wake_up`` is called then."""
        waiter = self._waiter  # once: another thread may ask
        return waiter is not None and (not waiter.is_awake or time.monotonic() < self._paused_until)

    def note_look(self, *, is_drained: bool, has_found: bool, limit: Limit | None = None) -> None:
        """
        Note the result of a look at the queue. If nothing more is due, wait.

        Args:
            is_drained: whether nothing more is due that may be received now.
            has_found: whether it had messages.
            limit: the limit of the queue that allows no more, if there is one.
        """
        waiter = self._waiter
        if waiter is not None and waiter.is_awake:
            if has_found:
                self._client.watcher.note_receive(waiter)
                waiter.empty_receives = 0
            else:
                waiter.empty_receives += 1
        if not is_drained:
            self.stop()
            return
        if waiter is None:
            waiter = self._waiter = Waiter((self._key,), self._handle_wake_up)
        waiter.limits = {} if limit is None else {self._key: limit}
        self._client.watcher.add(waiter)

    def _handle_wake_up(self) -> None:
        if self._waiter is not None and self._waiter.failure is not None:
            self._paused_until = time.monotonic() + _PAUSE_AFTER_FAILURE_SECONDS
        self._wake_up()

    def stop(self) -> None:
        """Stop waiting: let the queue be looked at."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            self._client.watcher.remove(waiter)
