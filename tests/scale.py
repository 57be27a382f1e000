"""How much of a test is run: scripts/test runs the usual counts, scripts/soak the large ones."""

from __future__ import annotations

import os

SOAK = os.environ.get("RSMQ_SOAK") == "1"


def scaled(usual: int, soak: int) -> int:
    """The count that this run wants."""
    return soak if SOAK else usual
