"""
A limit of time for a call, by the time in which the event loop ran.

While other work of the program stops the loop, a reply that has arrived is not read. Without the
limit here, the timer would be run first after such a stop, or its cancellation would replace the
reply. (uvloop runs timers before it reads, and asyncio cancels a task that has its reply.)
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

#: A timer that runs later than that was stopped.
PUNCTUAL_SECONDS = 0.01
#: How often a limit is moved, so that a server that hangs is noticed by a loop that is always late.
_MAX_STOPS = 10


class CallLimit:
    """Ends its block by a TimeoutError if it takes longer than the limit."""

    def __init__(self, seconds: float) -> None:
        """
        Make it.

        Args:
            seconds: the limit. Of each of the last stops of the loop as much is added as the stop
                was long, at most the limit itself and ten times.
        """
        self._seconds = seconds
        self._timeout = asyncio.timeout(None)
        self._stops = 0

    def expired(self) -> bool:
        """Return whether the block took longer."""
        return self._timeout.expired()

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        self._loop = asyncio.get_running_loop()
        self._wait(self._seconds)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        await self._timeout.__aexit__(kind, error, trace)

    def _wait(self, seconds: float) -> None:
        self._end = self._loop.time() + seconds
        self._timer = self._loop.call_at(self._end, self._look)

    def _look(self) -> None:
        late = self._loop.time() - self._end
        if late > PUNCTUAL_SECONDS and self._stops < _MAX_STOPS:
            self._stops += 1
            self._wait(min(late, self._seconds))
        else:
            self._timeout.reschedule(self._loop.time())
