"""Signals at a chosen bytecode: for what must not break wherever one comes."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def signal_at(number: int, *files: str, handler: Callable[[], object]) -> Iterator[list[int]]:
    """
    Have a signal come before the bytecode of this number, from 1, that runs in these files.

    Args:
        number: which.
        files: source files whose code counts.
        handler: what the signal's handler does.

    Yields:
        A list that holds the number once the signal has come.
    """
    came: list[int] = []
    left = number

    def step(frame: FrameType, event: str, _: object) -> object:
        nonlocal left
        if frame.f_code.co_filename not in files:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left == 0:
                signal.raise_signal(signal.SIGINT)
        return step

    def handle(*_: object) -> None:
        sys.settrace(None)
        came.append(number)
        handler()

    before = signal.signal(signal.SIGINT, handle)
    tracing = sys.gettrace()
    sys.settrace(step)
    try:
        yield came
    finally:
        sys.settrace(tracing)
        signal.signal(signal.SIGINT, before)
