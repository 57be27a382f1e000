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
from types import FrameType, TracebackType
from typing import Any, Self

#: Seconds within which two signals are one: some send it to a process, and to its group.
_ONE = 0.3


class StoppedAtStart(BaseException):
    """A signal came before the worker had begun."""


class Signals:
    """
    In its block the first signal stops the worker in order, and the second ends the process.

    Outside the main thread nothing changes.
    """

    def __init__(self, stop: Callable[[str], bool], describe: Callable[[], str]) -> None:
        """
        Make it.

        Args:
            stop: told the name of the first signal; False if there is nothing to be stopped yet.
            describe: what is ended by the second one.
        """
        self._stop = stop
        self._describe = describe
        self._pid = os.getpid()
        self._got = 0
        self._got_at = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def came(self) -> bool:
        """
        Whether one has come.

        What is raised at it goes no further than a destructor or a callback of the garbage
        collection, where one comes in there: whoever starts a worker looks here too.
        """
        return self._got > 0

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if os.getpid() != self._pid:  # a child that a handler has forked
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        now = time.monotonic()
        if self._got == 1 and now - self._got_at < _ONE:
            return
        self._got += 1
        self._got_at = now
        name = signal.Signals(number).name
        if self._got > 1:
            with suppress(OSError):  # no logging: another thread may hold its lock forever
                os.write(2, f"{self._describe()} ends at once, by {name}\n".encode())
            os._exit(128 + number)
        if not self._stop(name):
            raise StoppedAtStart
