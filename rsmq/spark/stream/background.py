"""
The process of a stream: its threads, and SIGTERM, which Spark sends to end it.

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
from typing import Any

from redis.exceptions import RedisError

from rsmq.errors import RSMQError
from rsmq.errors.guarded_log import get_logger

log = get_logger(__name__)


class SuccessiveThreads:
    """Daemon threads that each wait for the one before."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last: threading.Thread | None = None

    def start(self, target: Callable[..., None], *args: Any) -> None:
        """
        Call a function in a thread, after the threads before it have ended.

        Its errors of Redis and of this library are logged only: the caller repeats the work.
        """
        earlier = self._last

        def run() -> None:
            if earlier is not None:
                earlier.join()
            try:
                target(*args)
            except (RedisError, RSMQError) as error:
                log.info("Work in the background failed, and is repeated: %s", error)

        self._last = threading.Thread(target=run, name=self._name, daemon=True)
        self._last.start()

    def finish(self) -> None:
        """Wait until all threads have ended."""
        if self._last is not None:
            self._last.join()
            self._last = None


class Timer(threading.Thread):
    """
    A daemon thread that calls functions periodically.

    Attributes:
        stopped: set when it is to end.
    """

    def __init__(self, name: str, description: str, retry_seconds: float) -> None:
        """
        Start nothing.

        Args:
            description: begins the warning if a function fails.
            retry_seconds: the pause before a function that has failed is called again.
        """
        super().__init__(name=name, daemon=True)
        self.stopped = threading.Event()
        self._description = description
        self._retry_seconds = retry_seconds
        self._periods: list[tuple[float, Callable[[], object]]] = []

    def call_every(self, seconds: float, function: Callable[[], object]) -> None:
        """Call a function after so many seconds, again and again; only before ``start``."""
        self._periods.append((seconds, function))

    def run(self) -> None:
        due_at = [time.monotonic() + seconds for seconds, _ in self._periods]
        while not self.stopped.wait(max(0.01, min(due_at) - time.monotonic())):
            for index, (pause, function) in enumerate(self._periods):
                if time.monotonic() >= due_at[index]:
                    seconds = pause
                    try:
                        function()
                    except (RedisError, RSMQError) as error:
                        seconds = min(pause, self._retry_seconds)
                        log.warning("%s failed, and is repeated: %s", self._description, error)
                    due_at[index] = time.monotonic() + seconds


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
