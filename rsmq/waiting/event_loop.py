"""
The warning about a synchronous wait that blocks an event loop.
"""

from __future__ import annotations

import builtins
import sys
import warnings

_is_warned = False


def warn_in_event_loop() -> None:
    """
    Warn once in each process that this wait blocks the running event loop, if there is one.

    IPython and Jupyter run an event loop of their own, which nothing waits for: no warning.
    """
    global _is_warned  # noqa: PLW0603 - once in each process
    asyncio = sys.modules.get("asyncio")  # if it was never imported, there is no event loop
    if _is_warned or asyncio is None or hasattr(builtins, "__IPYTHON__"):
        return
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    _is_warned = True
    warnings.warn(
        "A synchronous receive with wait= blocks the running event loop. Use AsyncRSMQ, or call it "
        "in asyncio.to_thread",
        RuntimeWarning,
        stacklevel=5,
    )
