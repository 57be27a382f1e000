"""A signal before a chosen bytecode, to test code that any signal may interrupt."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def signal_at(number: int, *files: str, handler: Callable[[], object]) -> Iterator[list[int]]:
    """
    Raise SIGINT before one bytecode of these source files, while the block runs.

    Args:
        number: the number of the bytecode, counted from 1 as they run.
        files: source files whose bytecodes are counted.
        handler: is called by the signal's handler.

    Yields:
        A list that contains the number as soon as the signal was raised.
    """
    raised: list[int] = []
    remaining = number

    def step(frame: FrameType, event: str, _: object) -> object:
        nonlocal remaining
        if frame.f_code.co_filename not in files:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            remaining -= 1
            if remaining == 0:
                signal.raise_signal(signal.SIGINT)
        return step

    def handle(*_: object) -> None:
        sys.settrace(None)
        raised.append(number)
        handler()

    previous = signal.signal(signal.SIGINT, handle)
    previous_trace = sys.gettrace()
    # Python 3.12 counts bytecodes only if a frame asked for it before settrace().
    sys._getframe().f_trace_opcodes = True
    sys.settrace(step)
    try:
        yield raised
    finally:
        sys.settrace(previous_trace)
        signal.signal(signal.SIGINT, previous)
