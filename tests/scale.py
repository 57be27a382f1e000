"""The size of tests: scripts/test runs the usual counts, scripts/soak the large ones."""

from __future__ import annotations

import os

SOAK = os.environ.get("RSMQ_SOAK") == "1"

#: How long tests wait for a condition before they fail: beside other work on two processors,
#: programs start ten times as slowly as alone.
WAIT_SECONDS = 300.0

#: The engines of groups of servers, and the part of the rounds that each of them gets.
ENGINE_SHARES = {"redis-7.0": 1.0}
if SOAK:
    ENGINE_SHARES |= {"valkey-9.1": 1.0, "redis-8.2": 0.1, "valkey-8.1": 0.1}


def scaled(usual: int, soak: int) -> int:
    """Return the count for this kind of run."""
    return soak if SOAK else usual
