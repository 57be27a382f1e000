"""
The event that the handlers of a worker see when it stops.
"""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import suppress

from rsmq.transport.signals import Flag

#: Several threads may wait for a ``Flag`` only if each of them does so for a limited time.
_STEP_SECONDS = 1.0


class StopEvent:
    """
    An event that is set when the worker begins to stop, for threads and asyncio.

    Once set, it stays set. It is true when it is set, as in ``if message.stopping:``.
    """

    def __init__(self) -> None:
        """Make one that is not set."""
        self._flag = Flag()
        self._waiting: dict[asyncio.Future[None], asyncio.AbstractEventLoop] = {}

    def is_set(self) -> bool:
        """Return whether the worker stops."""
        return self._flag.is_set()

    __bool__ = is_set

    def wait(self, timeout: float | None = None) -> bool:
        """
        Wait in a thread until the worker stops. Return whether it does.

        Args:
            timeout: seconds; None waits forever.
        """
        until = math.inf if timeout is None else time.monotonic() + timeout
        while not self._flag.is_set() and (left := until - time.monotonic()) > 0:
            self._flag.wait(min(left, _STEP_SECONDS))
        return self._flag.is_set()

    async def wait_async(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - as ``wait``
        """
        Wait in an event loop until the worker stops. Return whether it does.

        Args:
            timeout: seconds; None waits forever.
        """
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._waiting[future] = loop  # before the look: a later ``set`` finds it
        try:
            if not self._flag.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(timeout):
                        await future
        finally:
            del self._waiting[future]
        return self._flag.is_set()

    def set(self) -> None:
        """Set it and wake those that wait; from any thread. A worker calls this."""
        self._flag.set()
        for future, loop in self._waiting.copy().items():
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_wake, future)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
