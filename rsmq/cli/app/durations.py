"""
Durations on the command line: seconds, or numbers with units.
"""

from __future__ import annotations

import re

_UNIT_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|[+-]?\.\d+")

#: The forms of a duration, for the help and for errors.
FORMS = "seconds, or a number with a unit: 500ms, 30s, 10m, 2h, 7d, 1h30m"


def parse_duration(text: str) -> float:
    """
    Return a duration in seconds: an int if it is a whole number, else a float.

    Args:
        text: a number of seconds, or numbers with the units ms, s, m, h, d and w, as in ``1h30m``.

    Raises:
        ValueError: the text is neither.
    """
    if _NUMBER.fullmatch(text):
        seconds = float(text)
    else:
        parts = _PART.findall(text)
        if not parts or "".join(number + unit for number, unit in parts) != text:
            raise ValueError(f"{text!r} is not a duration. Give {FORMS}.")
        seconds = sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)
    seconds = round(seconds, 6)
    return int(seconds) if seconds.is_integer() else seconds
