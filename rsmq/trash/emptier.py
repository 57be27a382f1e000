"""
Removes deletions that can't be undone any more, before they expire: an expiry may block Redis.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from redis.exceptions import RedisError

from rsmq.errors import RSMQError
from rsmq.operations.background_task import BackgroundTask

#: Kept messages live a minute longer than it can be undone.
_PAUSE_SECONDS = 30.0


class TrashEmptier(BackgroundTask):
    """Empties the trash of an asyncio client now and then while its block runs."""

    def __init__(self, queues: Any) -> None:
        self._queues = queues

    async def _run(self) -> None:
        while True:
            # Without it, what is kept expires.
            with suppress(RedisError, RSMQError, OSError):
                await self._queues.trash.empty()
            await asyncio.sleep(_PAUSE_SECONDS)
