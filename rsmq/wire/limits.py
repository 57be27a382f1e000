"""
Defaults and limits, and the checks of values that are sent.

Source: npm rsmq 0.12.4, index.js, for the defaults and limits of queues.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from typing import TypeAlias

from rsmq.errors import InvalidFormat, InvalidValue, MessageTooLong
from rsmq.errors.printable import format_count
from rsmq.wire.names import encode_name, is_encodable

#: A time span as methods of the clients accept it: a number of seconds, or a timedelta.
Seconds: TypeAlias = float | timedelta

DEFAULT_VT = 30
DEFAULT_DELAY = 0
DEFAULT_MAXSIZE = 65536
DEFAULT_DEDUP_WINDOW = 300
DEFAULT_KEEP = 0

#: Limits: vt and delay in seconds, maxsize in UTF-16 code units (or bytes).
MAX_SECONDS = 9_999_999
MIN_MAXSIZE = 1024
MAX_MAXSIZE = 65536
UNLIMITED = -1

#: Limits of a batch: the number of messages, and the bytes of all bodies.
MAX_BATCH = 10_000
#: Maximum number of nodes of a flow of tasks.
MAX_FLOW_NODES = 10_000
MAX_BATCH_BYTES = 16 * 1024 * 1024

#: The largest body that Redis accepts, in bytes: the default of its setting proto-max-bulk-len.
MAX_BODY_BYTES = 512 * 1024 * 1024

#: The smallest value of that setting: every server accepts a body of so many bytes.
ACCEPTED_BODY_BYTES = 1024 * 1024

#: Limits of extension data: the receives of a policy, and the characters of a dedup_id or a
#: unique_key.
MAX_RECEIVES = 1_000_000
MAX_LABEL = 128


def to_seconds(value: object) -> object:
    """Return the seconds of a timedelta; any other value unchanged."""
    return value.total_seconds() if isinstance(value, timedelta) else value


def check_seconds(item: str, value: object) -> int:
    """
    Check the seconds that are stored as a queue attribute, and return their number.

    Raises:
        InvalidValue: it is not a whole number from 0 to 9,999,999, nor such a timedelta.
    """
    value = to_seconds(value)
    number = _as_number(value)
    if number is None or number != int(number) or not 0 <= number <= MAX_SECONDS:
        raise InvalidValue(
            item,
            0,
            MAX_SECONDS,
            value=value,
            hint=f"The {item} of a queue is a whole number of seconds; a call may have fractions.",
        )
    return int(number)


def check_choice(item: str, value: object, choices: Sequence[str]) -> str:
    """
    Check one of several texts, and return it.

    Raises:
        InvalidFormat: it is none of them.
    """
    if not isinstance(value, str) or value not in choices:
        raise InvalidFormat(item, value=value, hint=f"Pass {' or '.join(map(repr, choices))}.")
    return value


def check_duration(item: str, value: object, low: float = 0, high: float = MAX_SECONDS) -> float:
    """
    Check a number of seconds, fractions allowed, and return it.

    Raises:
        InvalidValue: it is not a number from low to high.
    """
    number = _as_number(value)
    if number is None or not low <= number <= high:
        raise InvalidValue(
            item,
            low,
            high,
            value=value,
            hint="Pass a number of seconds.",
        )
    return float(number)


def to_milliseconds(item: str, value: object) -> int:
    """
    Return the seconds of a call as milliseconds; fractions are allowed and rounded to the nearest.

    Raises:
        InvalidValue: it is not a number from 0 to 9,999,999, nor such a timedelta.
    """
    return round(check_duration(item, to_seconds(value)) * 1000)


def check_maxsize(value: object) -> int:
    """
    Check a size limit that is stored as a queue attribute, and return it.

    Raises:
        InvalidValue: it is not a whole number from 1024 to 65,536, nor -1.
    """
    return check_whole_number("maxsize", value, MIN_MAXSIZE, MAX_MAXSIZE, UNLIMITED)


def check_wait(value: object) -> float | None:
    """
    Check how many seconds a receive waits for a message, and return the number. None means forever.

    Raises:
        InvalidValue: it is not a number from 0 to 9,999,999, nor such a timedelta.
    """
    if value is None or (value == 0 and value.__class__ is int):  # a fast path for the default
        return value
    return to_milliseconds("wait", value) / 1000


def check_whole_number(
    item: str, value: object, low: int, high: int, unlimited: int | None = None
) -> int:
    """
    Check a whole number within a range, and return it.

    Args:
        unlimited: a further number that is allowed and means no limit; None without one.

    Raises:
        InvalidValue: it is not a whole number, or is out of range.
    """
    number = _as_number(value)
    is_whole = number is not None and number == int(number)
    if number is not None and is_whole and (low <= number <= high or number == unlimited):
        return int(number)
    hint = "Pass a whole number."
    if unlimited is not None:
        hint = f"Pass a whole number in this range, or {unlimited} for unlimited."
    raise InvalidValue(item, low, high, value=value, hint=hint)


def check_body_size(size: int, limit: int | None = None) -> None:
    """
    Check that a body is not too large for Redis, which would close the connection.

    Args:
        size: bytes.
        limit: the largest number of bytes that the server accepts; None is MAX_BODY_BYTES.

    Raises:
        MessageTooLong: the body is larger than the largest that Redis accepts.
    """
    limit = MAX_BODY_BYTES if limit is None else limit
    if size > limit:
        remedy = "" if limit >= MAX_BODY_BYTES else ", or raise proto-max-bulk-len of the server"
        raise MessageTooLong(
            value=size,
            summary=f"Message too long: {format_count(size, 'byte')}, Redis accepts at most "
            f"{limit:,}",
            hint=f"Store the data elsewhere, and send its location{remedy}.",
        )


def large_body_size(size: int) -> int:
    """
    Return the size of a body if there may be servers that do not accept it, else 0.

    Raises:
        MessageTooLong: the body is larger than the largest that Redis accepts.
    """
    if size <= ACCEPTED_BODY_BYTES:
        return 0
    check_body_size(size)
    return size


def check_label(item: str, value: object) -> bytes:
    """
    Check a dedup_id or a unique_key, and return it as bytes.

    Raises:
        InvalidFormat: it is not a str of 1 to 128 characters, or can't be encoded.
    """
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_LABEL or not is_encodable(value):
        raise InvalidFormat(
            item,
            value=value,
            hint=f"It is a text of 1 to {MAX_LABEL} characters.",
        )
    return encode_name(value)


def utf16_length(text: str) -> int:
    """Return the length of a text in UTF-16 code units, as Node counts it."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _as_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # An int may be too large for a float, so it is not converted before its range is checked.
    return value if isinstance(value, int) or math.isfinite(value) else None
