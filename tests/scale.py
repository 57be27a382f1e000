"""The size of tests: scripts/test runs the usual counts, scripts/soak the large ones."""

from __future__ import annotations

import os

SOAK = os.environ.get("RSMQ_SOAK") == "1"


def scaled(usual: int, soak: int) -> int:
    """Return the count for this kind of run."""
    return soak if SOAK else usual
