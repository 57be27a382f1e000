"""
The interface of ``threads.py`` and ``tasks.py`` for the loop.
"""

from __future__ import annotations

from typing import Protocol


class Executor(Protocol):
    """Makes the calls in a run queue; its lock is held by the caller, but for ``stop``."""

    def wake(self, at_least: int) -> None:
        """There are calls to be made, by so many more at least."""

    def forget(self) -> None:
        """Who makes a call that hangs counts no more."""

    def stop(self) -> None:
        """End those that are idle; without the lock."""
