"""
The exit codes of the programs.
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """The exit code of a program."""

    DONE = 0
    NOT_ALL = 1
    USAGE = 2
    QUEUE = 3
    UNREACHABLE = 4
    REFUSED = 5
    UNHEALTHY = 6
    NAME_TAKEN = 7
    EXECUTOR_ENDED = 8
    EXECUTOR_STALLED = 9
    INTERRUPTED = 130
    CLOSED_PIPE = 141


#: The meaning of each exit code, as the help shows it.
MEANINGS: dict[Exit, str] = {
    Exit.DONE: "done",
    Exit.NOT_ALL: "done, but not all; or there was nothing: an empty queue, an id that is not "
    "there, a fault that was found; or a file can't be read or written",
    Exit.USAGE: "wrong usage, or a value out of its range",
    Exit.QUEUE: "there is no such queue, or there is one already",
    Exit.UNREACHABLE: "Redis can't be reached",
    Exit.REFUSED: "Redis refuses: password, rights, read-only, out of memory, wrong type of a key",
    Exit.UNHEALTHY: "the worker has stopped: too many handler calls hang",
    Exit.NAME_TAKEN: "another worker with the name of this one is running",
    Exit.EXECUTOR_ENDED: "the worker has stopped: the event loop or a thread of its handlers has "
    "ended",
    Exit.EXECUTOR_STALLED: "the worker has stopped: a handler has blocked the event loop, or the "
    "system allows no thread",
    Exit.INTERRUPTED: "ended by Ctrl-C",
    Exit.CLOSED_PIPE: "the reader of the output has closed the pipe before its end",
}
