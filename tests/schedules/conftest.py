"""Processes that fire schedules, and waiting for conditions."""

from __future__ import annotations

import random
import time

import pytest

from tests.scale import SOAK, WAIT_SECONDS
from tests.schedules.crowd import Crowd

#: It needs a clock that can be set, from the package faketime.
collect_ignore = [] if SOAK else ["test_clock.py"]


def wait_until(condition, seconds=WAIT_SECONDS):
    """Wait until a condition is true, and return its value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it has not happened"
        time.sleep(0.01)
    return value


@pytest.fixture
def crowd():
    made = []

    def start(url, ns):
        seed = random.randrange(2**32)
        print(f"seed {seed}")
        made.append(Crowd(url, ns, seed))
        return made[-1]

    yield start
    for each in made:
        each.stop()
