"""
Background work of a process of Spark, in threads of which one runs at a time.
"""

from __future__ import annotations

import logging
import threading
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
