"""
The messages that a dead worker had in flight, as the API lists them.
"""

from __future__ import annotations

from typing import Any

#: A message that was received so often, and not deleted, may have killed its worker.
_MANY_RECEIVES = 3


def hidden_of(held: list[Any]) -> list[Any]:
    """Return the messages that are still hidden, of those that a worker has or had in flight."""
    return [each for each in held if each["is_hidden"]]


def suspect_of(hidden: list[Any]) -> Any:
    """Return the message that may have killed its worker: it was received often; else None."""
    often = [each for each in hidden if each["receive_count"] >= _MANY_RECEIVES]
    return max(often, key=lambda each: each["receive_count"], default=None)
