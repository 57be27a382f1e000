"""The program ``rsmq``."""

from __future__ import annotations

from collections.abc import Sequence

import click


def run(arguments: Sequence[str] | None = None) -> int:
    """Run it; the exit code."""
    raise NotImplementedError(arguments, click)
