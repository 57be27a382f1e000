"""How PyRSMQ turns values into bodies, and bodies into values."""

from __future__ import annotations

import json
from typing import Any


def encode_message(msg: object) -> str:
    """A text as it is, anything else as JSON."""
    return msg if isinstance(msg, str) else json.dumps(msg)


def decode_message(msg: Any) -> Any:
    """The value that a text has as JSON; the text itself if it is none, bytes as they are."""
    if isinstance(msg, str):
        try:
            return json.loads(msg)
        except (ValueError, RecursionError):
            return msg
    return msg
