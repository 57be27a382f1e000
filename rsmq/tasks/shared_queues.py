"""
Queues in which several ``Tasks`` objects of a program declare tasks: a worker knows one of them.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from typing import Any

from rsmq._sync.client import RSMQ
from rsmq.errors.guarded_log import get_logger

_log = get_logger("rsmq.tasks")
_lock = threading.Lock()
#: The declarations that exist. Each is read by worker() of the others, and never changed there.
_declarations: weakref.WeakSet[SharedQueues] = weakref.WeakSet()


class SharedQueues:
    """The queues of one ``Tasks`` object, which others may share."""

    def __init__(self, client: RSMQ[Any]) -> None:
        """
        Make it without queues.

        Args:
            client: the client of its namespace.
        """
        self._place = client.origin.place, client.namespace.name
        self._names: dict[str, set[str]] = {}
        self._warned: set[tuple[str, frozenset[str]]] = set()
        with _lock:
            _declarations.add(self)

    def add(self, queue: str, name: str) -> None:
        """Note a task of a queue."""
        self._names[queue] = self._names.get(queue, set()) | {name}

    def remove(self, queue: str, name: str) -> None:
        """Forget a task of a queue."""
        self._names[queue] = self._names[queue] - {name}

    def warn(self) -> None:
        """Warn, once for each, of tasks that other objects declare in one of these queues."""
        with _lock:
            others = [each for each in _declarations if each is not self]
        for each in others:
            if self._place == each._place:  # noqa: SLF001 - another of this class
                self._warn_of(dict(each._names))  # noqa: SLF001

    def _warn_of(self, other: Mapping[str, set[str]]) -> None:
        for queue in self._names.keys() & other.keys():
            unknown = frozenset(other[queue] - self._names[queue])
            if not unknown or (queue, unknown) in self._warned:
                continue
            self._warned.add((queue, unknown))
            _log.warning(
                "queue %s: another Tasks object declares %s, which this worker moves to the dead "
                "letters. Declare all tasks of a queue with one object, or use several queues",
                queue,
                ", ".join(sorted(unknown)),
            )
