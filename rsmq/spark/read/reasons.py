"""
The columns of a frame that have the reasons of dead letters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import DataType, LongType, StringType, TimestampType

from rsmq.operations.replies import parse_reason

_MAX_INT64 = 2**63 - 1

#: The columns, in order; each is null if no reason is stored.
REASON_COLUMNS: dict[str, DataType] = {
    "from_queue": StringType(),
    "reason": StringType(),
    "exception": StringType(),
    "traceback": StringType(),
    "worker": StringType(),
    "attempts": LongType(),
    "died_at": TimestampType(),
    "status": LongType(),
    "answer": StringType(),
}


def parse_reason_columns(stored: Sequence[bytes | None]) -> dict[str, list[Any]]:
    """
    Return the columns of stored reasons by name, with ``died_at`` in Unix ms.

    A reason that is missing or invalid is null in all columns, and a field of another type is null.

    Args:
        stored: for each message the reason as Redis stores it, or None.
    """
    columns: dict[str, list[Any]] = {name: [] for name in REASON_COLUMNS}
    for each in stored:
        found = parse_reason(each)
        columns["from_queue"].append(found and _to_text(found.queue))
        columns["reason"].append(found and _to_text(found.text))
        columns["exception"].append(found and _to_text(found.exception))
        columns["traceback"].append(found and _to_text(found.traceback))
        columns["worker"].append(found and _to_text(found.worker))
        columns["attempts"].append(found and _to_integer(found.attempts))
        columns["died_at"].append(found and _to_integer(found.died_ms))
        columns["status"].append(found and _to_integer(found.status))
        columns["answer"].append(found and _to_text(found.answer))
    return columns


def _to_text(value: Any) -> str | None:
    """Return a text without lone surrogates, which JSON may contain and Arrow refuses."""
    if not isinstance(value, str):
        return None
    return value.encode("utf-8", "replace").decode()


def _to_integer(value: Any) -> int | None:
    return value if type(value) is int and abs(value) <= _MAX_INT64 else None
