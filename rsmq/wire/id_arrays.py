"""
The times in the ids of many messages, and the random ends of ids, by numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rsmq.wire.ids import (
    EARLIEST_US,
    ID_RANDOM_LENGTH,
    NODE_ID_LENGTH,
    make_random_characters,
    parse_sent_us_many,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TIME_DIGITS = 10
# As floating-point numbers, whose products numpy adds much faster. All are exact: 36**10 < 2**53.
_DIGIT_VALUES = np.zeros(256, np.float64)
for _digit in "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz":
    _DIGIT_VALUES[ord(_digit)] = int(_digit, 36)
_DIGIT_WEIGHTS = 36.0 ** np.arange(_TIME_DIGITS)[::-1]


def parse_sent_us_array(ids: Sequence[bytes]) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """
    Return ``parse_sent_us`` of many ids as stored in Redis, as an array.

    Returns:
        Unix microseconds; and an array that is true where an id contains no plausible time, or None
        if each id contains one.
    """
    joined = b"".join(ids)
    if joined.isalnum() and set(map(len, ids)) == {NODE_ID_LENGTH}:
        characters = np.frombuffer(joined, np.uint8).reshape(len(ids), NODE_ID_LENGTH)
        # With a capital it is an id of Node, not a hexadecimal number.
        has_capital = (characters - ord("A") < 26).any(axis=1)  # noqa: PLR2004 - below "A" it wraps
        digits = _DIGIT_VALUES.take(characters[:, :_TIME_DIGITS])
        times_us = (digits @ _DIGIT_WEIGHTS).astype(np.int64)
        if has_capital.all() and times_us.min() >= EARLIEST_US:
            return times_us, None
    parsed = parse_sent_us_many(ids)
    is_missing = np.array([us is None for us in parsed], bool)
    return np.array([us or 0 for us in parsed], np.int64), is_missing


def make_joined_suffixes(number: int) -> bytes:
    """Return ``make_id_suffixes`` joined, in a fourth of the time."""
    characters = make_random_characters(number * ID_RANDOM_LENGTH)
    return np.sort(np.frombuffer(characters, f"S{ID_RANDOM_LENGTH}")).tobytes()
