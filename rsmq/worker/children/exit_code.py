"""
The exit codes of processes, in words.
"""

from __future__ import annotations

import signal


def describe_exit_code(code: int) -> str:
    """
    Return how a process ended, as in 'ended with code 3' and 'was ended by SIGKILL'.

    Args:
        code: its exit code; the negative number of a signal if that ended it.
    """
    if code >= 0:
        return f"ended with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:  # most real-time signals have no name
        name = f"signal {-code}"
    return f"was ended by {name}"
