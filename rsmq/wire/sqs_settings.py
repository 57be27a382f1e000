"""
The attributes and tags of a queue that only SQS has, as the field ``x:sqs`` stores them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

#: The end of the name that a FIFO queue of SQS has here.
FIFO_ENDING = "_fifo"


def encode_settings(attributes: Mapping[str, str], tags: Mapping[str, str]) -> bytes:
    """Return the field with the attributes of SQS alone that have a value, and the tags."""
    kept = {name: value for name, value in attributes.items() if value}
    parts = {"attributes": kept, "tags": dict(tags)}
    return json.dumps({name: each for name, each in parts.items() if each}).encode()


def decode_settings(stored: bytes | None) -> tuple[dict[str, str], dict[str, str]]:
    """Return the attributes and the tags of a stored field; others may have written anything."""
    try:
        found = json.loads(stored or b"{}")
    except (ValueError, RecursionError):
        return {}, {}
    parts = found if isinstance(found, dict) else {}
    return _texts(parts.get("attributes")), _texts(parts.get("tags"))


def _texts(value: object) -> dict[str, str]:
    pairs = value.items() if isinstance(value, dict) else ()
    return {name: each for name, each in pairs if isinstance(each, str)}


def has_fifo(attributes: Mapping[str, str]) -> bool:
    """Return whether the attributes of SQS are those of a FIFO queue."""
    return attributes.get("FifoQueue") == "true"


def find_obstacle(qname: str, stored: bytes) -> str | None:
    """Return why clients of SQS could not reach a queue of this name with the field, or None."""
    if has_fifo(decode_settings(stored)[0]) and not qname.endswith(FIFO_ENDING):
        return f"the name of a FIFO queue must end with {FIFO_ENDING}"
    return None
