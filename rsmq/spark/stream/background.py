"""
The threads of a process of a stream: work in the background, and a timer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from redis.exceptions import RedisError

from rsmq.errors import RSMQError

log = logging.getLogger(__name__)


class SuccessiveThreads:
    """Daemon threads that each wait for the one before."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last: threading.Thread | None = None

    def start(self, target: Callable[..., None], *args: Any) -> None:
        """
        Call a function in a thread, after the threads before it have ended.

        Args:
            target: the function. Errors of Redis and of this library are logged only: the caller
                repeats the work.
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


class Timer:
    """
    A daemon thread that calls functions periodically.

    Attributes:
        stopped: set when it is to end.
    """

    def __init__(self, name: str, description: str, retry_seconds: float) -> None:
        """
        Start nothing.

        Args:
            name: the name of the thread.
            description: begins the warning if a function fails.
            retry_seconds: the pause before a function that has failed is called again.
        """
        self.stopped = threading.Event()
        self._name = name
        self._description = description
        self._retry_seconds = retry_seconds
        self._thread: threading.Thread | None = None

    def start(self, *periods: tuple[float, Callable[[], object]]) -> None:
        """
        Start the thread, unless it was started before.

        Args:
            periods: after how many seconds each function is called, again and again.
        """
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, args=(periods,), name=self._name, daemon=True
            )
            self._thread.start()

    def join(self, seconds: float | None = None) -> None:
        """Wait until the thread has ended, but no longer than some seconds."""
        if self._thread is not None:
            self._thread.join(seconds)

    def is_alive(self) -> bool:
        """Return whether the thread was started and has not ended."""
        return self._thread is not None and self._thread.is_alive()

    def _run(self, periods: tuple[tuple[float, Callable[[], object]], ...]) -> None:
        due_at = [time.monotonic() + seconds for seconds, _ in periods]
        while not self.stopped.wait(max(0.01, min(due_at) - time.monotonic())):
            for index, (seconds, call) in enumerate(periods):
                if time.monotonic() >= due_at[index]:
                    try:
                        call()
                        pause = seconds
                    except (RedisError, RSMQError) as error:
                        pause = min(seconds, self._retry_seconds)
                        log.warning("%s failed, and is repeated: %s", self._description, error)
                    due_at[index] = time.monotonic() + pause
