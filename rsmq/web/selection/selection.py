"""
A selection of messages that was shown to someone: each as it was, its id, receive count and score.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import zlib
from dataclasses import dataclass

from rsmq.model import State
from rsmq.web.selection.operations import LIFE_MS, Row
from rsmq.wire.stored import parse_number


@dataclass(frozen=True, slots=True)
class Selection:
    """
    Messages that were shown to someone.

    Attributes:
        queue: the name of the queue.
        state: the state that they had; None is any.
        filter: what they fit, as a text; None is any.
        count: their number; if it is not complete, that of those that were found.
        is_complete: whether all of them are in it. Else there are more than 10,000, or the search
            took more than ten seconds: no action takes it, and a stored operation with the same
            filter and ``before_ms`` does the same.
        digest: of the messages and how they were; two selections with the same one are the same.
        token: for ``execute``. It can't be guessed.
        before_ms: Unix ms of the server when it was stored. Later messages are not in it.
        until_ms: until when it can be used.
        by_ids: whether the messages were chosen by their ids.
        rows: the messages, as they were.
    """

    queue: str
    state: State | None
    filter: str | None
    count: int
    is_complete: bool
    digest: str
    token: str
    before_ms: int
    by_ids: bool
    rows: list[Row]

    @property
    def until_ms(self) -> int:
        """Until when it can be used."""
        return self.before_ms + LIFE_MS

    def most_received(self, most: int) -> tuple[str, ...]:
        """
        Return the ids of those that were received most often: one may have crashed its workers.

        Args:
            most: their number.
        """
        found = heapq.nlargest(most, self.rows, key=lambda row: parse_number(row[1].encode()) or 0)
        return tuple(id for id, _, _ in found)


def make_selection(
    queue: str,
    rows: list[Row],
    *,
    filter: str | None = None,
    state: State | None = None,
    is_complete: bool = True,
    by_ids: bool = False,
) -> Selection:
    """Return a selection that is not stored yet; one that is not complete has no rows."""
    digest = hashlib.sha256(json.dumps(sorted(rows)).encode()).hexdigest()[:32]
    kept = rows if is_complete else []
    return Selection(queue, state, filter, len(rows), is_complete, digest, "", 0, by_ids, kept)


def encode_selection(selection: Selection) -> bytes:
    """Return what is stored of a selection."""
    names = ("queue", "state", "filter", "count", "is_complete", "digest", "by_ids", "rows")
    content = {name: getattr(selection, name) for name in names}
    return zlib.compress(json.dumps(content).encode(), 1)


def decode_selection(content: bytes) -> Selection:
    """Return a selection as it is stored, without its token and its time."""
    read = json.loads(zlib.decompress(content))
    rows = list(map(tuple, read.pop("rows")))
    return Selection(**read, token="", before_ms=0, rows=rows)
