"""
A task that a process runs beside its own work.
"""

from __future__ import annotations

import asyncio
from typing import Self


class BackgroundTask:
    """A task of the event loop that runs from the begin of its block to its end."""

    _task: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        raise NotImplementedError
