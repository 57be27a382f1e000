"""
The standard streams of a process that was started without some, as by ``rsmq list >&-``.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

from rsmq.cli.app.errors import Failed


class _Closed(io.RawIOBase):
    """An input that can't be read."""

    def readable(self) -> bool:
        return True

    def readinto(self, _: Any) -> int:
        raise Failed("The standard input is closed", code="file", hint="Give a file, or a pipe.")


def complete_streams() -> None:
    """
    Give the process streams for those that are closed.

    What is written to a closed standard error goes nowhere; who reads a closed standard input gets
    an error.

    Raises:
        Failed: the standard output is closed. Nothing was done yet: what a receive brings would
            be lost.
    """
    # In this order: what is opened first gets the first number that is free.
    if sys.stdin is None:
        os.open(os.devnull, os.O_RDONLY)
        sys.stdin = io.TextIOWrapper(io.BufferedReader(_Closed()))
    output = sys.stdout
    if output is None:
        sys.stdout = _nowhere()
    if sys.stderr is None:
        sys.stderr = _nowhere()
    if output is None:
        raise Failed(
            "The standard output is closed", code="file", hint="Nothing was done. > /dev/null does."
        )


def _nowhere() -> io.TextIOWrapper:
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
