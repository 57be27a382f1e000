"""
A warning for calls of the synchronous client inside the event loop of a worker.

Such a call stops all tasks of the loop until Redis has answered.
"""

from __future__ import annotations

import asyncio

from rsmq.errors.guarded_log import get_logger

_log = get_logger("rsmq.worker")

#: The event loops in which a synchronous call gets a warning; empty in most processes.
watched_loops: set[asyncio.AbstractEventLoop] = set()
_warned_loops: set[int] = set()


def watch_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Warn once about synchronous calls in an event loop."""
    watched_loops.add(loop)
    _warned_loops.discard(id(loop))


def unwatch_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Warn no longer."""
    watched_loops.discard(loop)


def warn_in_watched_loop() -> None:
    """Log a warning if this thread runs a watched loop, and none was logged for the loop."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    if loop in watched_loops and id(loop) not in _warned_loops:
        _warned_loops.add(id(loop))
        _log.warning(
            "an async handler calls the synchronous client, which stops all async handlers "
            "meanwhile: use worker.aio",
            stack_info=True,
        )
