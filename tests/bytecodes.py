"""A signal before a chosen bytecode, or an exception before a chosen line."""

from __future__ import annotations

import collections
import gc
import itertools
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def traced(function: Callable[[FrameType, str, object], object]) -> Iterator[None]:
    """
    Trace the frames of the block with a function, as ``sys.settrace`` does.

    Nothing is collected meanwhile: what is raised in the ``__del__`` of an object that an earlier
    test left is lost.
    """
    previous = sys.gettrace()
    was_collecting = gc.isenabled()
    gc.disable()
    sys.settrace(function)
    try:
        yield
    finally:
        sys.settrace(previous)
        if was_collecting:
            gc.enable()


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
    # Python 3.12 counts bytecodes only if a frame asked for it before settrace().
    sys._getframe().f_trace_opcodes = True
    try:
        with traced(step):
            yield raised
    finally:
        signal.signal(signal.SIGINT, previous)


class Raised(Exception):
    """An exception as that of a signal handler, or of a bug."""


@contextmanager
def raising(kind: type[BaseException], number: int, *files: str) -> Iterator[list[tuple[str, int]]]:
    """
    Raise an exception before a line of these source files, while the block runs.

    Args:
        kind: the class of the exception.
        number: the number of the line, counted from 1 as they run; each counts the first and the
            third time.
        files: the source files whose lines are counted.

    Yields:
        A list that has an element as soon as the exception was raised.
    """
    count = itertools.count(1)
    runs: collections.Counter[tuple[str, int]] = collections.Counter()
    raised: list[tuple[str, int]] = []

    def step(frame: FrameType, event: str, _: object) -> object:
        line = frame.f_code.co_name, frame.f_lineno
        if event == "line":
            runs[line] += 1
            if runs[line] in (1, 3) and next(count) == number:
                sys.settrace(None)
                raised.append(line)
                raise kind(str(line))
        return step

    def call(frame: FrameType, *_: object) -> object:
        return step if frame.f_code.co_filename in files else None

    with traced(call):
        yield raised
