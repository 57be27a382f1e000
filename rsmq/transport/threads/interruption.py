"""
Pauses, and what must not be interrupted, for threads. ``asyncio_/interruption.py`` is for asyncio.
"""

from __future__ import annotations

from collections.abc import Callable
from time import sleep as pause

from rsmq.transport.signals import DeferredSignals

__all__ = ["deferred_signals", "finish", "pause"]

deferred_signals = DeferredSignals


def finish(release: Callable[[], None]) -> None:
    """
    Release messages.

    Args:
        release: releases them.
    """
    release()
