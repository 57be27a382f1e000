"""
The interface of ``threads.py`` and ``tasks.py`` for the loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol

from rsmq.worker.state.calls import Job


@dataclass(frozen=True, slots=True)
class Stall:
    """
    A time in which an executor starts no calls: its event loop is blocked, or the system allows no
    thread.

    Attributes:
        cause: why, a part of a sentence.
        remedy: what to do, a sentence.
        seconds: for how long.
        max_seconds: after how many seconds the worker ends.
        job: the call that blocks the event loop; None if it is not known, or there is none.
        trace: where the event loop is blocked, from outer to inner frames; None for threads.
    """

    cause: str
    remedy: str
    seconds: float
    max_seconds: float
    job: Job | None = None
    trace: TracebackType | None = None

    @property
    def is_over(self) -> bool:
        """Return whether the worker has to end."""
        return self.seconds > self.max_seconds


@dataclass(slots=True)
class ExecutorEnd:
    """
    The end of an executor, or of one of its threads, that the worker has not asked for.

    Attributes:
        cause: why it has ended, a part of a sentence.
        jobs: its abandoned calls, whose messages the loop has not released yet.
        stall: the stall that has lasted too long; None if there was none.
    """

    cause: str
    jobs: list[Job] = field(default_factory=list)
    stall: Stall | None = None


class Executor(Protocol):
    """
    Runs the calls in a run queue. The caller holds the run queue's lock, except for ``check`` and
    ``stop``.

    Attributes:
        hung_count: number of threads or tasks that still run abandoned calls.
        max_calls: maximum number of concurrent calls. The loop changes it.
        end: its end, if the worker has not asked for it; None while it runs calls. The executor
            sets it, the loop reads it and takes its jobs.
        stall: why it starts no calls at the moment; None if it does. ``check`` sets it in the
            loop's thread, any thread reads it.
    """

    hung_count: int
    max_calls: int
    end: ExecutorEnd | None
    stall: Stall | None

    def wake(self, minimum: int) -> None:
        """Wake threads or tasks, or start new ones, at least ``minimum``."""

    def replace_hung(self) -> None:
        """Count the thread or task of an abandoned call as hung, so that another can replace it."""

    def check(self, now: float) -> None:
        """
        Set ``end`` if it has ended without having noticed it, and ``stall``; the lock must not be
        held.

        Args:
            now: monotonic seconds.
        """

    def interrupt(self) -> bool:
        """
        Interrupt the calls in child processes; the lock must not be held. Return whether there are
        any.
        """

    def stop(self) -> None:
        """End idle threads or tasks; the lock must not be held."""
