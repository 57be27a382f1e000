"""
Whether this process is a child process of a worker, which ends with its parent.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_children: list[int] = []


def is_child() -> bool:
    """Return whether this process is a child process of a worker."""
    return os.getpid() in _children


def become_child(parent: int) -> None:
    """
    Make this process a child process of a worker: on Linux it is killed when its parent ends.

    That works while the GIL is held too, unlike the end of a socket that another thread reads.

    Args:
        parent: the process id of the parent. If it has ended already, this process ends at once.
    """
    _children.append(os.getpid())
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
