"""
Pauses, and what must not be interrupted, for asyncio. ``threads/interruption.py`` is for threads.
"""

from __future__ import annotations

import asyncio
from asyncio import sleep as pause
from collections.abc import Awaitable, Callable
from contextlib import nullcontext

from rsmq.transport.clock import now
from rsmq.transport.retry import INTERRUPTION_GRACE_SECONDS

__all__ = ["deferred_signals", "finish", "pause"]

deferred_signals = nullcontext  # a task is cancelled only where it awaits


async def finish(release: Callable[[], Awaitable[None]]) -> None:
    """
    Release messages. It is not cancelled with the task, and awaited for at most a second.

    Args:
        release: releases them.

    Raises:
        CancelledError: the task was cancelled meanwhile.
    """
    task = asyncio.ensure_future(release())
    until = now() + INTERRUPTION_GRACE_SECONDS
    cancellation: asyncio.CancelledError | None = None
    while not task.done() and (seconds := until - now()) > 0:
        try:
            await asyncio.wait((task,), timeout=seconds)
        except asyncio.CancelledError as error:
            cancellation = error
    if not task.done():
        task.cancel()
    if cancellation is not None:
        raise cancellation
