# Generated from rsmq/vocabulary by scripts/generate-sync. Do not edit.
"""
The attributes of a queue and the facts of a message in answers of HTTP. Their tables describe them.
"""

from __future__ import annotations

from typing import TypedDict


class AttributesJson(TypedDict):
    """The attributes of a queue."""

    vt: float
    delay: float
    maxsize: int
    created: str | None
    modified: str | None
    total_sent: int
    total_received: int
    dead_letter_queue: str | None
    max_receives: int | None
    paused: bool
    keep: float | None
    expired: str
    max_running: int | None
    rate: str | None


class FactsJson(TypedDict):
    """The facts of a message that all faces show."""

    group: str | None
    limit_key: str | None
    max_running: int | None
