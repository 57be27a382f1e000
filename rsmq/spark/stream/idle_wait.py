"""
The wait of an idle stream for messages, which lasts over many short polls.

Spark polls the sources of a query one after another, so a poll must not block the others. The
watcher of each server reports changes of the queues on its connection: while nothing has changed, a
poll needs no command.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from rsmq.spark.connections import SparkQueue
from rsmq.waiting.schedule import Waiter
from rsmq.waiting.threads import Watcher

#: The longest time that a poll blocks the other sources of a query.
MAX_POLL_SECONDS = 0.05


class IdleWait:
    """A wait for messages in queues that were empty when it began."""

    def __init__(self, poll_seconds: float) -> None:
        self._poll_seconds = min(poll_seconds, MAX_POLL_SECONDS)
        self._awake = threading.Event()
        self._waiters: dict[Watcher, Waiter] = {}

    def may_have_messages(self, queues: Iterable[SparkQueue]) -> bool:
        """
        Return whether the queues may have messages; wait for a change for a moment.

        True before the first empty receive, and for other queues than those of that receive.
        """
        if not self._waiters:
            return True
        if _group(queues) != {watcher: waiter.queues for watcher, waiter in self._waiters.items()}:
            self.end()
            return True
        return self._awake.wait(self._poll_seconds)

    def note_empty(self, queues: Iterable[SparkQueue]) -> None:
        """Begin to wait, or continue to, after a receive from the queues returned no message."""
        self._awake.clear()
        for waiter in self._waiters.values():
            waiter.empty_receives += waiter.is_awake
        if not self._waiters:
            self._waiters = {
                watcher: Waiter(keys, self._awake.set) for watcher, keys in _group(queues).items()
            }
        for watcher, waiter in self._waiters.items():
            watcher.add(waiter)

    def end(self, *, has_received: bool = False) -> None:
        """End the wait, also because a receive returned messages; the next poll receives."""
        waiters, self._waiters = self._waiters, {}
        for watcher, waiter in waiters.items():
            if has_received and waiter.is_awake:
                watcher.note_receive(waiter)
            else:
                watcher.remove(waiter)


def _group(queues: Iterable[SparkQueue]) -> dict[Watcher, tuple[bytes, ...]]:
    """Return the sorted sets of queues by the watcher of their server."""
    groups: dict[Watcher, list[bytes]] = {}
    for queue in queues:
        groups.setdefault(queue.server.rsmq.watcher, []).append(queue.keys.zset)
    return {watcher: tuple(keys) for watcher, keys in groups.items()}
