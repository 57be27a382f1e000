"""
Ids and scores for the messages of a source: where each of them stands in the queue.
"""

from __future__ import annotations

from collections.abc import Sequence

from rsmq.migrate.ids import Numbered, derived, digest
from rsmq.migrate.order import NewestFirst, OldestFirst
from rsmq.migrate.sources.item import Item
from rsmq.operations.migration import Arrival
from rsmq.operations.restored import Restored


class Copies:
    """Places for messages that are read from the last to the first, the same each time."""

    def __init__(self, kind: str, begun_us: int) -> None:
        """
        Make it.

        Args:
            kind: of source.
            begun_us: Unix microseconds: when what tells no time was sent.
        """
        self._kind = kind
        self._begun_us = begun_us
        self._order = NewestFirst()

    def arrivals(self, items: Sequence[Item], now_us: int) -> list[Arrival]:
        """
        What they are in the queue.

        Args:
            items: those without an identity can't be copied, and are nothing there.
            now_us: the time, Unix microseconds: none that waits is due later, even if it was sent
                by a clock that was ahead.
        """
        return [self._arrival(item, now_us) for item in items]

    def _arrival(self, item: Item, now_us: int) -> Arrival:
        if not item.identity:
            return Arrival(b"", None)
        known = digest(self._kind, item.identity)
        if item.body is None:
            return Arrival(known, None)
        us = self._begun_us if item.sent_us is None else item.sent_us
        id = item.id or derived(us, self._kind, item.identity)
        score = item.due_ms
        if score is None:
            score = self._order.score(min(us, now_us) // 1000, id)
        return _arrived(known, item, id, score)


class Moves:
    """Places for messages that are taken from the first to the last, a batch at a time."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._ids = Numbered()
        self._order = OldestFirst()

    def arrivals(self, items: Sequence[Item], now_us: int) -> list[Arrival]:
        """As ``Copies`` has it; what tells no time was sent now, and needs no identity."""
        sent = [now_us if item.sent_us is None else item.sent_us for item in items]
        ids = [item.id or self._ids.make(us) for item, us in zip(items, sent, strict=True)]
        in_order = [item.body is not None and item.due_ms is None for item in items]
        scores = iter(
            self._order.scores(
                [
                    (min(us, now_us) // 1000, id)
                    for us, id, is_in_order in zip(sent, ids, in_order, strict=True)
                    if is_in_order
                ]
            )
        )
        return [
            _arrived(
                digest(self._kind, item.identity) if item.identity else b"",
                item,
                id,
                next(scores) if is_in_order else item.due_ms,
            )
            for item, id, is_in_order in zip(items, ids, in_order, strict=True)
        ]


def _arrived(known: bytes, item: Item, id: str, score: int | None) -> Arrival:
    if item.body is None:
        return Arrival(known, None)
    message = Restored(id, item.body, score, item.receive_count, item.first_received_ms)
    return Arrival(known, message)
