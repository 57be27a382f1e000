"""
The observer of each wait for jobs before it begins: the worker, which may call the waiting code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

#: Called with the queues of the jobs.
checks: list[Callable[[Collection[str]], object]] = []


def check_wait(queues: Collection[str]) -> None:
    """Let each check look at a wait for jobs of these queues."""
    for check in checks:
        check(queues)
