"""
Signals that take effect between two calls to Spark.

A handler that raises in the middle of a call leaves its answer unread on the connection to the JVM.
Py4J then closes the connection, which can fail the next call, too.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def delayed_signals() -> Iterator[Callable[[], None]]:
    """
    Delay SIGINT and SIGTERM in the block, if it runs in the main thread.

    Signals without a handler in Python are not delayed: they end the process, or are ignored.

    Yields:
        A function that runs the handlers of the signals that have arrived. They also run at the end
        of the block, unless it has failed.
    """
    handlers: dict[int, Callable[[int, FrameType | None], object]] = {}
    arrived: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        arrived.append(number)

    def run_handlers() -> None:
        while arrived:
            number = arrived.pop(0)
            handlers[number](number, None)

    if threading.current_thread() is threading.main_thread():
        for each in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(each)
            if callable(handler):
                handlers[each] = handler
                signal.signal(each, note)
    try:
        yield run_handlers
    finally:
        for number, earlier in handlers.items():
            if signal.getsignal(number) is note:  # else a handler has chosen another one
                signal.signal(number, earlier)
    run_handlers()
