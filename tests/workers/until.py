"""Waiting for what another thread does."""

from __future__ import annotations

import time


def until(condition, seconds=10):
    """The condition's result, as soon as it is true."""
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.002)
