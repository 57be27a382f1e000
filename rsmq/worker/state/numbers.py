"""
Counters of a worker: what has happened to its messages.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Numbers:
    """
    Counters of messages since the worker started.

    Attributes:
        received: received.
        handled: handled and deleted.
        failed: the handler raised, or could not be called. Discard, Defer and a requested Retry
            are no failures.
        retried: hidden until a next attempt.
        deferred: hidden until a later call, without an attempt.
        dead: moved to a dead-letter queue, or to that of unroutable ones.
        dropped: deleted without having been handled.
        lost: the lease was lost.
        released: released.
        hung: the handler ran longer than max_runtime.
    """

    received: int = 0
    handled: int = 0
    failed: int = 0
    retried: int = 0
    deferred: int = 0
    dead: int = 0
    dropped: int = 0
    lost: int = 0
    released: int = 0
    hung: int = 0

    @property
    def has_outcomes(self) -> bool:
        """Return whether a message had an outcome, other than a release."""
        return bool(
            self.handled
            or self.failed
            or self.retried
            or self.deferred
            or self.dropped
            or self.dead
        )

    def __str__(self) -> str:
        return ", ".join(f"{getattr(self, name)} {name}" for name in self.__slots__)
