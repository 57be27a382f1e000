"""
Calls that wait for a server, in several threads at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

#: How many calls run side by side.
_MAX_THREADS = 16


def call_for_each(function: Callable[[Any], object], messages: Sequence[Any]) -> None:
    """Call a function for each message; for a single one in this thread."""
    if len(messages) == 1:
        function(messages[0])
    elif messages:
        with ThreadPoolExecutor(min(_MAX_THREADS, len(messages)), "rsmq-bodies") as threads:
            list(threads.map(function, messages))
