"""
SIGTERM in the process of a streaming source, which Spark sends to end it.

Spark's runner calls ``stop`` of the reader when Spark closes its socket, at about the time of the
signal. By default the signal ends the process before that call.
"""

from __future__ import annotations

import atexit
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class SigtermHandler:
    """
    Lets SIGTERM raise SystemExit in this process, but in no block that is not to be interrupted.

    A function, ``stop``, is called before the process ends: when Python exits, unless ``ignored``
    came before.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._is_delayed = False
        self._is_ignored = False
        self._number: int | None = None  # of the signal that has arrived

    def install(self) -> None:
        """Handle the signal from now on, unless this program handles it in its own way."""
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._handle)

    def has_arrived(self) -> bool:
        """Return whether the signal has arrived."""
        return self._number is not None

    def _handle(self, number: int, _: object) -> None:
        self._number = number
        if not self._is_delayed:
            self._exit_if_signalled()

    def _exit_if_signalled(self) -> None:
        if self._number is not None and not self._is_ignored:
            self._is_ignored = True
            atexit.register(self._stop)
            sys.exit(128 + self._number)

    @contextmanager
    def delayed(self) -> Iterator[None]:
        """Let the signal raise SystemExit at the end of the block only."""
        self._is_delayed = True
        try:
            yield
        finally:
            self._is_delayed = False
        self._exit_if_signalled()

    def sleep(self, seconds: float) -> None:
        """Wait; the signal interrupts that also in a block of ``delayed``."""
        was_delayed, self._is_delayed = self._is_delayed, False
        try:
            self._exit_if_signalled()
            time.sleep(seconds)
        finally:
            self._is_delayed = was_delayed

    @contextmanager
    def ignored(self) -> Iterator[None]:
        """Let the signal have no effect from now on: the block is ``stop``."""
        self._is_ignored = True
        yield
        atexit.unregister(self._stop)
