"""
The threads of a process of a stream: work in the background, and a timer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
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
