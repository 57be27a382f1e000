"""Waiting for conditions."""

from __future__ import annotations

import time


def wait_until(condition, seconds=30):
    """Wait until a condition is true, and return its value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it has not happened"
        time.sleep(0.01)
    return value
