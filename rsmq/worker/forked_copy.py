"""
Copies of a worker's process that its handlers have forked. A copy must not handle messages.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from rsmq.errors.guarded_log import get_logger

_log = get_logger("rsmq.worker")

_fork_count = 0


def _count_fork() -> None:
    global _fork_count  # noqa: PLW0603 - shows a fork without a system call for each message
    _fork_count += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


class OwnProcess:
    """The process in which the object was made."""

    __slots__ = ("_fork_count",)

    def __init__(self) -> None:
        self._fork_count = _fork_count

    def leave_if_copy(self, error: BaseException | None = None) -> None:
        """
        End this process if it is a copy of that process, forked by a handler or a hook.

        It ends as a program would after the error, but without the functions of ``atexit``.

        Args:
            error: the exception of the handler or hook; None if it has returned.
        """
        if self._fork_count != _fork_count:
            _leave(error)


def _leave(error: BaseException | None) -> None:
    code: object = 0 if error is None else 1
    if isinstance(error, SystemExit):
        code = error.code or 0
    else:
        _log.warning(
            "a process that a handler has forked, pid %d, ends: it has returned to the worker, "
            "instead of calling os._exit()",
            os.getpid(),
        )
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(code if isinstance(code, int) else 1)
