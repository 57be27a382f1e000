"""
Replacements for standard streams that lose data.

These are streams that the process was started without, as in ``rsmq list >&-``, and the unbuffered
output of ``PYTHONUNBUFFERED=1``.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

from rsmq.cli.app.errors import Exit, Failed


class _ClosedInput(io.RawIOBase):
    """A standard input that raises an error when it is read."""

    def readable(self) -> bool:
        return True

    def readinto(self, _: Any) -> int:
        raise Failed(
            "The standard input is closed",
            exit=Exit.NOT_ALL,
            code="file",
            hint="Give a file, or a pipe.",
        )


class _WholeWriter(io.BufferedWriter):
    """An output that writes all data at once, or raises an error."""

    def write(self, data: Any) -> int:
        size = super().write(data)
        self.flush()
        return size


def complete_streams() -> None:
    """
    Replace closed standard streams, and an unbuffered standard output.

    An unbuffered output of Python loses data without an error, if a write ends early: because the
    output does not block and is full, or because of a signal.

    Text for a closed standard error is discarded. Reading from a closed standard input raises
    ``Failed``.

    Raises:
        Failed: the standard output is closed. It is raised before the program does anything,
            because the messages that a command receives would be lost.
    """
    # In this order: each open() gets the lowest free file descriptor.
    if sys.stdin is None:
        os.open(os.devnull, os.O_RDONLY)
        sys.stdin = io.TextIOWrapper(io.BufferedReader(_ClosedInput()))
    output = sys.stdout
    if output is None:
        sys.stdout = _open_null_output()
    if sys.stderr is None:
        sys.stderr = _open_null_output()
    if output is None:
        raise Failed(
            "The standard output is closed",
            exit=Exit.NOT_ALL,
            code="file",
            hint="Nothing was done. > /dev/null discards the output.",
        )
    if isinstance(getattr(output, "buffer", None), io.RawIOBase):
        # A file of its own: Python closes it when nothing refers to it any longer, and must not
        # close the output of a program that calls this one.
        unbuffered = io.FileIO(output.fileno(), "w", closefd=False)
        sys.stdout = io.TextIOWrapper(
            _WholeWriter(unbuffered),
            encoding=output.encoding,
            errors=output.errors,
            write_through=True,
        )


def _open_null_output() -> io.TextIOWrapper:
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
