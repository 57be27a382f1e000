"""
The messages that a dead worker had in flight, as the API lists them.
"""

from __future__ import annotations

from collections.abc import Iterable

from rsmq.web.routes.workers import HeldJson

#: A message that was received so often, and not deleted, may have killed its worker.
_MANY_RECEIVES = 3


def hidden_of(held: Iterable[HeldJson]) -> list[HeldJson]:
    """Return the messages that are still hidden, of those that a worker has or had in flight."""
    return [each for each in held if each["is_hidden"]]


def suspect_of(hidden: Iterable[HeldJson]) -> HeldJson | None:
    """Return the message that may have killed its worker: it was received often; else None."""
    often = [each for each in hidden if each["receive_count"] >= _MANY_RECEIVES]
    return max(often, key=lambda each: each["receive_count"], default=None)


def visible_at(hidden: HeldJson) -> int:
    """Return Unix ms at which a hidden message becomes visible."""
    return hidden["visible_at_ms"] or 0
