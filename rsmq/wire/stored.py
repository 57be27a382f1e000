"""
Parsers of values that any client may have stored.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from rsmq.wire.limits import DEFAULT_MAXSIZE, MAX_SECONDS, UNLIMITED

_MAX_NUMBER_CHARACTERS = 20  # as in lua/fragments/attributes.lua
_DECIMAL = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)")
_FAST_PATH_DIGITS = 16
_MIN_MILLISECONDS = 10**11  # as seconds, this is the year 5138


def parse_number(raw: bytes | None) -> float | None:
    """Return a decimal number, with or without a fraction; None if it is not one."""
    if raw is None or len(raw) > _MAX_NUMBER_CHARACTERS:
        return None
    if raw.isdigit():
        return int(raw)
    if not _DECIMAL.fullmatch(raw):
        return None
    if b"." not in raw:
        return int(raw)
    number = float(raw)
    return int(number) if number.is_integer() else number


def parse_integer(raw: bytes | None) -> int | None:
    """Return a whole number, without its fraction if it has one; None if it is not a number."""
    if raw is not None and raw.isdigit() and len(raw) < _FAST_PATH_DIGITS:
        return int(raw)
    number = parse_number(raw)
    return None if number is None else int(number)


def parse_seconds(raw: bytes) -> float:
    """Return vt or delay in seconds, limited to 0 to 9,999,999; 0 if it is not a number."""
    return min(max(parse_number(raw) or 0, 0), MAX_SECONDS)


def parse_maxsize(raw: bytes) -> int:
    """Return a size limit; the default if the value can't be a limit."""
    number = parse_number(raw)
    if number is None or (number < 1 and number != UNLIMITED):
        return DEFAULT_MAXSIZE
    return int(number)


def parse_time(raw: bytes | None) -> datetime | None:
    """Return created or modified, stored in seconds, or in ms if large; None if not a time."""
    number = parse_number(raw)
    if number is None:
        return None
    try:
        return datetime.fromtimestamp(number / 1000 if number > _MIN_MILLISECONDS else number, UTC)
    except (OverflowError, OSError, ValueError):
        return None
