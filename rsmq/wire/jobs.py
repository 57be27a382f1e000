"""
The records of tracked messages: their fields, states and limits. ``QueueKeys.job`` has their key.
"""

from __future__ import annotations

import json

from rsmq.errors import InvalidFormat, InvalidValue, show

#: The states of a job that has ended.
ENDS = frozenset(("succeeded", "failed", "cancelled", "expired"))
#: How long the record of an ended job lives if the listener sets no result_ttl.
DEFAULT_RESULT_TTL_SECONDS = 3600.0
#: The shortest result_ttl.
MIN_RESULT_TTL_SECONDS = 1.0
#: The largest result: bytes of its JSON.
MAX_RESULT_BYTES = 65_536
#: The stored length of the text of a progress.
MAX_PROGRESS_CHARACTERS = 500
#: The largest number of a progress: larger ones are not exact in all languages.
MAX_PROGRESS = 2**53 - 1


def encode_progress(done: float, total: float | None, text: str) -> bytes:
    """
    Return a progress as scripts take it: done, total and text, separated by blanks.

    Raises:
        InvalidValue: a number is out of range, or not a number.
        InvalidFormat: the text is not a str.
    """
    numbers = [done] if total is None else [done, total]
    for item, number in zip(("done", "total"), numbers, strict=False):
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        if not is_number or not 0 <= number <= MAX_PROGRESS:
            raise InvalidValue(item, 0, MAX_PROGRESS, value=number)
    if not isinstance(text, str):
        raise InvalidFormat("text", value=show(text), hint="It is a str.")
    words = [*map(json.dumps, numbers), "", ""][:2]
    shown = text[:MAX_PROGRESS_CHARACTERS].encode(errors="backslashreplace")
    return f"{words[0]} {words[1]} ".encode() + shown
