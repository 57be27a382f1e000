"""Polling for what another thread does."""

from __future__ import annotations

import time

from tests.scale import WAIT_SECONDS


def wait_until(condition, seconds=WAIT_SECONDS):
    """Wait until the condition is true, and return its result."""
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.002)


def loop_of(worker):
    """Return the loop of a worker; None before it starts."""
    return worker._worker_loop


def state_of(worker):
    """Return the state of a started worker; see ``LoopState``."""
    return loop_of(worker).state()
