"""
Ids and scores as a scan returns them.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

#: Numbers of at most so many digits, and their sums of products below, are exact.
_MAX_EXACT_DIGITS = 15


class SeenIds:
    """
    The ids that the steps of a scan have returned.

    Nearly no step repeats an id. So the ids of a step are added without a look at each.
    """

    def __init__(self) -> None:
        self._ids: set[bytes] = set()
        self._steps: list[list[bytes]] = []

    def drop_seen(self, members: list[bytes]) -> list[bytes]:
        """Add ids with scores in turn; return those that are new, each once."""
        ids = members[::2]
        number = len(self._ids) + len(ids)
        self._ids.update(ids)
        if len(self._ids) == number:
            self._steps.append(ids)
            return members
        before = set().union(*self._steps)
        scores = dict(zip(ids, members[1::2], strict=True))
        new = {id: score for id, score in scores.items() if id not in before}
        self._steps.append(list(new))
        return [value for member in new.items() for value in member]


def parse_scores(texts: Sequence[bytes]) -> array[float]:
    """Return scores as numbers; if all have one length, which is usual, numpy does it at once."""
    joined = b"".join(texts)
    length = len(joined) // max(1, len(texts))
    is_even = length <= _MAX_EXACT_DIGITS and set(map(len, texts)) == {length}
    if not is_even or not joined.isdigit():
        return array("d", map(float, texts))
    digits = np.frombuffer(joined, np.uint8).reshape(len(texts), length) - np.uint8(ord("0"))
    return array("d", (digits.astype(np.float64) @ 10.0 ** np.arange(length)[::-1]).tobytes())
