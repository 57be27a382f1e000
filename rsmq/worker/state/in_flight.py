"""
The messages of a queue that are in flight at a worker, and when their leases are extended. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Generic, Protocol, TypeVar


class Renewable(Protocol):
    """A message in flight, as far as its lease is concerned. All times are monotonic seconds."""

    id: str
    renew_at: float
    expires_at: float


L = TypeVar("L", bound=Renewable)


class InFlight(Generic[L]):
    """
    The messages of one queue that are not settled, by id, and when the first is to be extended.

    Only the loop's thread changes it, and reads it without a lock. Other threads ask for its length
    only.

    Attributes:
        renew_at: monotonic seconds at which the first of the messages is to be extended, or
            earlier. Written by the methods, read by ``Heartbeat``.
    """

    __slots__ = ("_by_id", "renew_at")

    def __init__(self) -> None:
        self._by_id: dict[str, L] = {}
        self.renew_at = math.inf

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[L]:
        return iter(self._by_id.values())

    def __contains__(self, lease: L) -> bool:
        """Return whether this object is in flight, and not another receive of its message."""
        return self._by_id.get(lease.id) is lease

    def find(self, ids: Iterable[str]) -> list[L]:
        """Return those messages whose ids are among these."""
        by_id = self._by_id
        return [by_id[id] for id in ids if id in by_id]

    def due(self, now: float) -> list[L]:
        """Return the messages that are to be extended at a time, in monotonic seconds."""
        return [lease for lease in self if lease.renew_at <= now]

    def add(self, leases: Iterable[L], renew_at: float) -> None:
        """Add messages, the first of which is to be extended at ``renew_at``, or later."""
        by_id = self._by_id
        for lease in leases:
            by_id[lease.id] = lease
        self.renew_at = min(self.renew_at, renew_at)

    def remove(self, leases: Iterable[L]) -> None:
        """Remove those of these objects that are in flight."""
        by_id = self._by_id
        for lease in leases:
            if by_id.get(lease.id) is lease:
                del by_id[lease.id]

    @staticmethod
    def extend(lease: L, expires_at: float, renew_at: float) -> None:
        """Note that a visibility timeout was extended, and when it is to be extended again."""
        lease.renew_at, lease.expires_at = renew_at, expires_at

    def renew_by(self, lease: L, at: float) -> None:
        """Let a message be extended at a time, in monotonic seconds, or earlier."""
        lease.renew_at = min(lease.renew_at, at)
        self.renew_at = min(self.renew_at, lease.renew_at)

    def plan_renewal(self) -> None:
        """Set ``renew_at`` by the messages, after those that were due have been extended."""
        self.renew_at = min((lease.renew_at for lease in self), default=math.inf)
