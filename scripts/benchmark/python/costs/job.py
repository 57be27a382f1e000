"""The job of all systems: it returns a result, and one with the body FIRST writes when it began."""

from __future__ import annotations

import os
import time
from pathlib import Path

FIRST = "first"


def handle(body: str) -> str:
    """Handle the body of a job."""
    if body == FIRST:
        path = Path(os.environ["COSTS_FIRST"])
        path.with_suffix(".new").write_text(str(time.monotonic()))
        path.with_suffix(".new").rename(path)
    return "ok"


def bodies(count: str, size: str) -> list[str]:
    """Return the bodies of as many jobs; size 0 is the body FIRST."""
    return [FIRST if size == "0" else "x" * int(size)] * int(count)
