"""
A gate: decides whether messages of a queue may be received, beside the pause of the queue.
"""

from __future__ import annotations

from typing import Protocol

from rsmq._sync.client import RSMQ


class Gate(Protocol):
    """
    A gate that all processes share. Handlers use it in their threads, the worker's loop in its own.

    Attributes:
        target: the target behind the gate, for hooks and logs.
        state: the state, for hooks and logs.
        text: the reason of the state, for logs; may be empty.
    """

    @property
    def target(self) -> str: ...

    @property
    def state(self) -> str: ...

    @property
    def text(self) -> str: ...

    def allowance(self) -> int | None:
        """Return how many messages may be received now; None is any number."""

    def due_at(self, *, is_active: bool) -> float:
        """
        Return the monotonic seconds at which ``sync`` is to be called next.

        Args:
            is_active: whether handlers run, or messages wait for them.
        """

    def sync(self, rsmq: RSMQ) -> None:
        """
        Write the events of this process to Redis, and read those of others.

        Raises:
            Errors of redis-py: Redis could not be reached, or refuses the command.
        """

    def sync_alone(self) -> None:
        """Continue without Redis, which refuses the command."""
