"""
PyRSMQ's conversions of values to bodies, and of bodies to values.
"""

from __future__ import annotations

import json
from typing import Any


def encode_message(msg: object) -> str:
    """Return a text as it is, and any other value as JSON."""
    return msg if isinstance(msg, str) else json.dumps(msg)


def decode_message(msg: Any) -> Any:
    """Return the value of a JSON text; bytes, and texts that are not JSON, as they are."""
    if isinstance(msg, str):
        try:
            return json.loads(msg)
        except (ValueError, RecursionError):
            return msg
    return msg
