"""
The numbers that Python reads in JSON, and that JSON does not have.
"""

from __future__ import annotations

from typing import Any


def refuse_constant(name: str) -> Any:
    """Refuse NaN or Infinity: the ``parse_constant`` of a strict reader of JSON."""
    raise ValueError(name)
