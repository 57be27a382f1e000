"""
The interface of ``threads.py`` and ``tasks.py`` for the loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from rsmq.worker.state.lane import Job


@dataclass(slots=True)
class ExecutorEnd:
    """
    The end of an executor, or of one of its threads, that the worker has not asked for.

    Attributes:
        cause: why it has ended, a part of a sentence.
        jobs: its abandoned calls, whose messages the loop has not released yet.
    """

    cause: str
    jobs: list[Job] = field(default_factory=list)


class Executor(Protocol):
    """
    Runs the calls in a run queue. The caller holds the run queue's lock, except for ``check`` and
    ``stop``.

    Attributes:
        hung_count: number of threads or tasks that still run abandoned calls.
        end: its end, if the worker has not asked for it; None while it runs calls. The executor
            sets it, the loop reads it and takes its jobs.
    """

    hung_count: int
    end: ExecutorEnd | None

    def wake(self, minimum: int) -> None:
        """Wake threads or tasks, or start new ones, at least ``minimum``."""

    def replace_hung(self) -> None:
        """Count the thread or task of an abandoned call as hung, so that another can replace it."""

    def check(self) -> None:
        """Set ``end`` if it has ended without having noticed it; the lock must not be held."""

    def stop(self) -> None:
        """End idle threads or tasks; the lock must not be held."""
