"""
Values as the Node client reads them: ``parseInt``, and its checks in their order.
"""

from __future__ import annotations

import math
import re
from typing import Any

from rsmq.vocabulary.queues import NODE_SETTINGS

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,160}")
_ID = re.compile(r"[a-zA-Z0-9:]{32}")
#: JavaScript's blanks.
_BLANKS = "\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_DIGITS = re.compile(f"[{_BLANKS}]*([+-]?[0-9]+)")
#: JavaScript writes numbers from here on with an exponent.
_EXPONENT_FROM, _EXPONENT_BELOW = 1e21, 1e-6


class NodeError(Exception):
    """
    An error as rest-rsmq answers it.

    Attributes:
        name: the name of the error.
    """

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


def check_name(qname: str) -> str:
    """Return the name of a queue."""
    if not _NAME.fullmatch(qname):
        raise NodeError("invalidFormat", "Invalid qname format")
    return qname


def check_id(id: str) -> str:
    """Return the id of a message."""
    if not _ID.fullmatch(id):
        raise NodeError("invalidFormat", "Invalid id format")
    return id


def read_number(item: str, value: Any, default: Any = None) -> Any:
    """Return vt, delay or maxsize; the default if it is null or missing."""
    return default if value is None else require_number(item, value)


def require_number(item: str, value: Any) -> int:
    """Return vt, delay or maxsize; it must be there."""
    number, setting = parse_int(value), NODE_SETTINGS[item]
    low, high = int(setting.low or 0), int(setting.high or 0)
    if number is None or not low <= number <= high:
        raise NodeError("invalidValue", f"{item} must be between {low} and {high}")
    return number


def parse_int(value: Any) -> int | None:
    """Return what JavaScript's ``parseInt(value, 10)`` returns; None for NaN."""
    text = _to_text(value)
    match = _DIGITS.match(text)
    return int(match[1][:_MAX_DIGITS]) if match else None


#: More digits are out of every range here.
_MAX_DIGITS = 25


def _to_text(value: Any) -> str:
    while isinstance(value, list):  # as JavaScript joins it
        value = value[0] if value else ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    if not math.isfinite(value):
        return ""
    size = abs(value)
    if size >= _EXPONENT_FROM or 0 < size < _EXPONENT_BELOW:
        return repr(float(value))
    return str(int(value))
