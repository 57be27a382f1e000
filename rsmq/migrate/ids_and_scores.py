"""
Ids and scores for messages of another system: where each of them is in the target queue.

An id is the time at which the message was sent, and 22 characters. A queue sorts its messages by
score, and those of equal score by id.
"""

from __future__ import annotations

import hashlib
from binascii import b2a_base64
from collections.abc import Sequence
from itertools import count, product

from rsmq.migrate.sources.item import Item
from rsmq.operations.migration import Arrival
from rsmq.operations.restored import Restored
from rsmq.wire.ids import ID_ALPHABET, ID_RANDOM_LENGTH, make_id_suffix

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_TWO_DIGITS = ["".join(pair) for pair in product(_DIGITS, repeat=2)]
# In the order in which ids sort.
_CHARACTERS = "".join(sorted(ID_ALPHABET.decode()))
_TWO_CHARACTERS = ["".join(pair) for pair in product(_CHARACTERS, repeat=2)]
_NUMBER_LENGTH = 6
_LATEST_US = 36**10 - 1
_ANY_BYTE = bytes(ID_ALPHABET[byte % len(ID_ALPHABET)] for byte in range(256))


def time_part(us: int) -> str:
    """
    Ten base-36 digits.

    Args:
        us: Unix microseconds; what ten digits can't tell is the nearest that they can.
    """
    us, a = divmod(min(max(us, 0), _LATEST_US), 1296)
    us, b = divmod(us, 1296)
    us, c = divmod(us, 1296)
    e, d = divmod(us, 1296)
    two = _TWO_DIGITS
    return two[e] + two[d] + two[c] + two[b] + two[a]


def derived(us: int, kind: str, identity: bytes) -> str:
    """The id that a message gets whenever it is copied."""
    return time_part(us) + _suffix(kind, identity)


def numbered(us: int, number: int, kind: str, identity: bytes) -> str:
    """The same; where times are equal it sorts by its number."""
    return time_part(us) + _six_characters(number) + _suffix(kind, identity)[_NUMBER_LENGTH:]


def digest(kind: str, identity: bytes) -> bytes:
    """Sixteen characters by which a message is known again."""
    known = hashlib.blake2b(kind.encode() + b"\0" + identity, digest_size=12).digest()
    return b2a_base64(known, newline=False)


def _suffix(kind: str, identity: bytes) -> str:
    known = hashlib.sha256(kind.encode() + b"\0" + identity).digest()
    return known[:ID_RANDOM_LENGTH].translate(_ANY_BYTE).decode()


class Numbered:
    """New ids that sort as they were made, where their times are equal."""

    def __init__(self) -> None:
        self._numbers = count()

    def make(self, us: int) -> str:
        """
        A new id.

        Args:
            us: Unix microseconds.
        """
        random = make_id_suffix()[_NUMBER_LENGTH:].decode()
        return time_part(us) + _six_characters(next(self._numbers)) + random


def _six_characters(number: int) -> str:
    number, c = divmod(number, 3844)
    a, b = divmod(number, 3844)
    return _TWO_CHARACTERS[a] + _TWO_CHARACTERS[b] + _TWO_CHARACTERS[c]


class NewestFirst:
    """Scores for messages that are read from the last to the first, however many."""

    def __init__(self) -> None:
        self._next: tuple[int, str] | None = None

    def score(self, sent_ms: int, id: str) -> int:
        """
        The time when it was sent, or earlier where the one behind it was sent earlier still.

        Args:
            sent_ms: when it was sent.
            id: its id.
        """
        score = sent_ms
        if self._next is not None:
            after, after_id = self._next
            score = min(score, after)
            if score == after and id >= after_id:
                score -= 1
        self._next = score, id
        return score


class OldestFirst:
    """Scores for messages that are taken from the first to the last, a batch at a time."""

    def __init__(self) -> None:
        self._last: tuple[int, str] | None = None

    def scores(self, batch: Sequence[tuple[int, str]]) -> list[int]:
        """
        Scores behind those of the batch before.

        Inside the batch each has the time when it was sent, or earlier, as above. What was sent
        before the end of the last batch comes right behind that.

        Args:
            batch: of each message the ms when it was sent, and its id.
        """
        backwards = NewestFirst()
        scores = [backwards.score(sent_ms, id) for sent_ms, id in reversed(batch)][::-1]
        for at, (_, id) in enumerate(batch):
            if self._last is not None:
                before, before_id = self._last
                behind = before if id > before_id else before + 1
                scores[at] = max(scores[at], behind)
            self._last = scores[at], id
        return scores


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
