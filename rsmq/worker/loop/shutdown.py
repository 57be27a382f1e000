"""
SIGTERM and SIGINT, while a worker runs in the main thread.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Self

#: Two signals within this time count as one: some programs signal a process and its group.
SAME_SIGNAL_SECONDS = 0.3


class StoppedAtStart(BaseException):
    """A signal arrived before the worker had started."""


class Signals:
    """
    A context in which the first signal stops the worker gracefully, and the second ends the
    process.

    It changes nothing outside the main thread.
    """

    def __init__(self, stop: Callable[[str], bool], describe: Callable[[], str]) -> None:
        """
        Make it.

        Args:
            stop: called with the name of the first signal; False if nothing can be stopped.
            describe: returns the subject of the message that the second signal prints.
        """
        self._stop = stop
        self._describe = describe
        self._pid = os.getpid()
        self._signal_count = 0
        self._last_signal_at = 0.0
        self._previous_handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._previous_handlers[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)

    @property
    def has_come(self) -> bool:
        """
        Return whether a signal has arrived.

        The exception that a signal handler raises is lost if the signal arrives in a destructor or
        in a callback of the garbage collector. So the code that starts a worker checks this too.
        """
        return self._signal_count > 0

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if os.getpid() != self._pid:  # a child process that a handler forked
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        now = time.monotonic()
        if self._signal_count == 1 and now - self._last_signal_at < SAME_SIGNAL_SECONDS:
            return
        self._signal_count += 1
        self._last_signal_at = now
        name = signal.Signals(number).name
        if self._signal_count > 1:
            with suppress(OSError):  # no logging: another thread may hold its lock forever
                os.write(2, f"{self._describe()} ends at once, by {name}\n".encode())
            os._exit(128 + number)
        if not self._stop(name):
            raise StoppedAtStart
