"""
Removes deletions that can't be undone any more, before they expire: an expiry may block Redis.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

from redis.exceptions import RedisError

from rsmq.errors import RSMQError
from rsmq.web.client import Client

#: What is kept lives a minute longer than it can be undone.
_PAUSE_SECONDS = 30.0


class TrashEmptier:
    """Empties the trash of a client now and then while its block runs."""

    def __init__(self, queues: Client) -> None:
        self._queues = queues

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            # Without it, what is kept expires.
            with suppress(RedisError, RSMQError, OSError):
                await self._queues.trash.empty()
            await asyncio.sleep(_PAUSE_SECONDS)
