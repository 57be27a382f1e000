"""
The interface of ``threads.py`` and ``tasks.py`` for the loop.
"""

from __future__ import annotations

from typing import Protocol


class Executor(Protocol):
    """
    Runs the calls in a run queue. The caller holds the run queue's lock, except for ``stop``.

    Attributes:
        hung_count: number of threads or tasks that still run abandoned calls.
    """

    hung_count: int

    def wake(self, minimum: int) -> None:
        """Wake threads or tasks, or start new ones, at least ``minimum``."""

    def replace_hung(self) -> None:
        """Count the thread or task of an abandoned call as hung, so that another can replace it."""

    def stop(self) -> None:
        """End idle threads or tasks; the lock must not be held."""
