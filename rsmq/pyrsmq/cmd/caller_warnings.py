"""
Warnings that name the line of the calling program.
"""

from __future__ import annotations

import inspect
import warnings


def warn(text: str) -> None:
    """Issue a UserWarning for the line of the program that called into ``rsmq.pyrsmq``."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("rsmq.pyrsmq"):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, UserWarning, stacklevel=level)
