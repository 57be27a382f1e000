"""
PyRSMQ's helper functions: values to bodies and back, checks of numbers, and ids.
"""

from __future__ import annotations

import json
import random
from typing import Any

from rsmq.wire.ids import ID_ALPHABET, make_id_suffix

#: The characters of ``random_string``.
DEFAULT_CHARSET = ID_ALPHABET.decode()

_BASE_36_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


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


def validate_int(
    value: Any,
    min_value: int | None = None,
    max_value: int | None = None,
    logger: Any = None,
    name: str | None = None,
) -> bool:
    """
    Return whether a value is a whole number within limits.

    Args:
        value: a number, or its text. A fraction is cut off.
        min_value: the smallest number; None without one.
        max_value: the largest number; None without one.
        logger: gets the reason at the level DEBUG; None without one.
        name: the name of the value in the reason; None logs none.
    """
    reason = ""
    try:
        number = None if value is None else int(value)
    except (OverflowError, TypeError, ValueError):
        reason = f"({value}) is not an integer"
    else:
        if number is None:
            reason = "is not set"
        elif min_value is not None and number < min_value:
            reason = f"{number} is less than minimum ({min_value})"
        elif max_value is not None and number > max_value:
            reason = f"{number} is greater than maximum ({max_value})"
    if reason and logger is not None and name:
        logger.debug("%s value %s", name, reason)
    return not reason


def baseXencode(value: Any, chars: str = _BASE_36_DIGITS) -> str:
    """
    Return a whole number in the base of the number of digits; an empty text for 0.

    Args:
        value: the number, or its text.
        chars: the digits, from 0 on.

    Raises:
        ValueError: the value is not a whole number.
    """
    number, text = abs(int(value)), ""
    while number:
        number, digit = divmod(number, len(chars))
        text = chars[digit] + text
    return f"-{text}" if int(value) < 0 else text


def random_string(length: int, charset: str | None = None) -> str:
    """Return a text of random characters, of a charset or of ``DEFAULT_CHARSET``."""
    return "".join(random.choices(charset or DEFAULT_CHARSET, k=length))  # noqa: S311 - no secret


def make_message_id(usec: int) -> str:
    """Return a new message id for a sent time, in Unix microseconds."""
    return baseXencode(usec) + make_id_suffix().decode()
