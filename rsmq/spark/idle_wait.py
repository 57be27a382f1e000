"""
The wait of an idle stream for messages, which lasts over many short polls.

Spark polls the sources of a query one after another, so a poll must not block the others. The
watcher of the client reports changes of the queues on its connection: while nothing has changed, a
poll needs no command.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from rsmq.waiting.schedule import Waiter
from rsmq.waiting.sync import Watcher

#: The longest time that a poll blocks the other sources of a query.
MAX_POLL_SECONDS = 0.05


class IdleWait:
    """A wait for messages in queues that were empty when it began."""

    def __init__(self, watcher: Watcher, poll_seconds: float) -> None:
        """
        Prepare the wait; nothing is opened.

        Args:
            watcher: the watcher of the client.
            poll_seconds: how long a poll waits; 0.05 seconds at most.
        """
        self._watcher = watcher
        self._poll_seconds = min(poll_seconds, MAX_POLL_SECONDS)
        self._awake = threading.Event()
        self._waiter: Waiter | None = None

    def may_have_messages(self, queues: Iterable[bytes]) -> bool:
        """
        Return whether the queues may have messages; wait for a change for a moment.

        True before the first empty receive, and for other queues than those of that receive.

        Args:
            queues: the sorted sets of the queues.
        """
        if self._waiter is None:
            return True
        if set(self._waiter.queues) != set(queues):
            self.end()
            return True
        return self._awake.wait(self._poll_seconds)

    def note_empty(self, queues: Iterable[bytes]) -> None:
        """
        Begin to wait, or continue to, after a receive from the queues returned no message.

        Args:
            queues: the sorted sets of the queues.
        """
        if self._waiter is None:
            self._waiter = Waiter(tuple(queues), self._awake.set)
        else:
            self._waiter.empty_receives += 1
        self._awake.clear()
        self._watcher.add(self._waiter)

    def note_received(self) -> None:
        """End the wait, because a receive returned messages."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            if waiter.is_awake:
                self._watcher.note_receive(waiter)
            else:
                self._watcher.remove(waiter)

    def end(self) -> None:
        """End the wait; the next poll receives."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            self._watcher.remove(waiter)
