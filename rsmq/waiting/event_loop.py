"""
The warning about a synchronous call that blocks an event loop.
"""

from __future__ import annotations

import builtins
import os
import sys
import warnings

_is_warned = False
_PACKAGE = __file__.rsplit(os.sep, 2)[0] + os.sep


def warn_in_event_loop(
    call: str = "wait (a receive with wait=, job.result())",
    remedy: str = "Use AsyncRSMQ; for a task, await task.asend(...) and await job. Or call it in "
    "asyncio.to_thread",
) -> None:
    """
    Warn once in each process that this call blocks the running event loop, if there is one.

    The warning names the line that has called this library.
    IPython and Jupyter run an event loop of their own, which nothing waits for: no warning.
    """
    global _is_warned  # noqa: PLW0603 - once in each process
    asyncio = sys.modules.get("asyncio")  # if it was never imported, there is no event loop
    if _is_warned or asyncio is None or hasattr(builtins, "__IPYTHON__"):
        return
    if asyncio._get_running_loop() is None:  # noqa: SLF001 - without the cost of an exception
        return
    _is_warned = True
    level, frame = 1, sys._getframe()  # noqa: SLF001 - Python 3.11 has no skip_file_prefixes
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    text = f"A synchronous {call} blocks the running event loop. {remedy}"
    warnings.warn(text, RuntimeWarning, stacklevel=level)
