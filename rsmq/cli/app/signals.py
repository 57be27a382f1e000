"""
Handlers of signals, for the time of a block.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def handling(handler: Callable[[int, FrameType | None], object], *numbers: int) -> Iterator[None]:
    """Call a handler for signals in this block, and restore the earlier handlers at its end."""
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in previous.items():
            signal.signal(number, earlier)
