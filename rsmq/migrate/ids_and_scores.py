"""
Ids and scores of migrated messages: they keep the order of the source in the target queue.

An id is the time at which the message was sent, and 22 characters. A queue sorts its messages by
score, and those of equal score by id.
"""

from __future__ import annotations

import hashlib
from binascii import b2a_base64
from collections.abc import Sequence
from itertools import count, product

from rsmq.migrate.operations import IncomingMessage
from rsmq.migrate.sources.item import Item
from rsmq.operations.restore import RestoredMessage
from rsmq.wire.ids import ID_ALPHABET, ID_RANDOM_LENGTH, make_id_suffix

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_TWO_DIGITS = ["".join(pair) for pair in product(_DIGITS, repeat=2)]
# In the order in which ids sort.
_CHARACTERS = "".join(sorted(ID_ALPHABET.decode()))
_TWO_CHARACTERS = ["".join(pair) for pair in product(_CHARACTERS, repeat=2)]
_TIME_LENGTH, _NUMBER_LENGTH = 10, 6
_LATEST_US = 36**10 - 1
_CHARACTER_OF_BYTE = bytes(ID_ALPHABET[byte % len(ID_ALPHABET)] for byte in range(256))


def encode_time(us: int) -> str:
    """
    Return ten base-36 digits.

    Args:
        us: Unix microseconds; a value beyond the range of ten digits is replaced by the nearest one
            inside.
    """
    us, a = divmod(min(max(us, 0), _LATEST_US), 1296)
    us, b = divmod(us, 1296)
    us, c = divmod(us, 1296)
    e, d = divmod(us, 1296)
    two = _TWO_DIGITS
    return two[e] + two[d] + two[c] + two[b] + two[a]


def derive_id(us: int, kind: str, identity: bytes) -> str:
    """
    Return the id of a copied message: the same in each run.

    Args:
        us: the time when it was sent, Unix microseconds.
        kind: the kind of source.
        identity: identifies the message among all others of its kind of source.
    """
    return encode_time(us) + _derive_suffix(kind, identity)


def derive_numbered_id(us: int, number: int, kind: str, identity: bytes) -> str:
    """
    Return the id of a copied message: the same in each run. Ids of equal time sort by number.

    Args:
        us: the time when it was sent, Unix microseconds.
        number: its place in the order, below 62**6.
        kind: the kind of source.
        identity: identifies the message among all others of its kind of source.
    """
    return (
        encode_time(us) + _encode_number(number) + _derive_suffix(kind, identity)[_NUMBER_LENGTH:]
    )


def make_digest(kind: str, identity: bytes) -> bytes:
    """Return the sixteen characters by which later runs recognize a message."""
    hash_bytes = hashlib.blake2b(kind.encode() + b"\0" + identity, digest_size=12).digest()
    return b2a_base64(hash_bytes, newline=False)


def _derive_suffix(kind: str, identity: bytes) -> str:
    hash_bytes = hashlib.sha256(kind.encode() + b"\0" + identity).digest()
    return hash_bytes[:ID_RANDOM_LENGTH].translate(_CHARACTER_OF_BYTE).decode()


class NumberedIds:
    """A generator of new ids, which sort in the order in which they are made if times are equal."""

    def __init__(self) -> None:
        self._numbers = count()

    def continue_after(self, id: str) -> None:
        """
        Continue with the number behind that of an id.

        Args:
            id: an id that another generator has made.
        """
        self._numbers = count(_decode_number(id[_TIME_LENGTH : _TIME_LENGTH + _NUMBER_LENGTH]) + 1)

    def make(self, us: int) -> str:
        """
        Return a new id.

        Args:
            us: the time when the message was sent, Unix microseconds.
        """
        random = make_id_suffix()[_NUMBER_LENGTH:].decode()
        return encode_time(us) + _encode_number(next(self._numbers)) + random


def _encode_number(number: int) -> str:
    """Return six characters."""
    number, c = divmod(number, 3844)
    a, b = divmod(number, 3844)
    return _TWO_CHARACTERS[a] + _TWO_CHARACTERS[b] + _TWO_CHARACTERS[c]


def _decode_number(characters: str) -> int:
    """Return the number of six characters; 0 for the characters of an id without a number."""
    number = 0
    for each in characters:
        number = number * len(_CHARACTERS) + _CHARACTERS.find(each)
    return max(number, 0)


class NewestFirst:
    """Scores of messages that are read from the last to the first, in any number of pages."""

    def __init__(self, before: int | None = None) -> None:
        """
        Create the scores of messages that sort before others.

        Args:
            before: the score of the first of the others, Unix milliseconds; None if there are none.
        """
        self._next: tuple[int, str] | None = None if before is None else (before, "")

    def score(self, sent_ms: int, id: str) -> int:
        """
        Return the score of the next message: when it was sent, or earlier.

        It is earlier if the message would otherwise sort behind the message that follows it.

        Args:
            sent_ms: when it was sent, Unix milliseconds.
        """
        score = sent_ms
        if self._next is not None:
            following, following_id = self._next
            score = min(score, following)
            if score == following and id >= following_id:
                score -= 1
        self._next = score, id
        return score


class OldestFirst:
    """
    Scores of messages that are removed from the first to the last, in batches.

    Attributes:
        first: the lowest score so far; None before the first message.
        last: the score and the id of the last message; None before the first one.
        before: the score of the first message that must sort behind these, Unix milliseconds; None
            if there is none.
    """

    def __init__(self) -> None:
        self.first: int | None = None
        self.last: tuple[int, str] | None = None
        self.before: int | None = None

    def scores(self, batch: Sequence[tuple[int, str]]) -> list[int]:
        """
        Return the scores of the next batch, which sorts behind the batches before.

        Inside the batch a score is the time when the message was sent, or earlier, as in
        ``NewestFirst``. A message that was sent before the end of the last batch sorts directly
        behind that batch, even if it should sort before ``before``.

        Args:
            batch: when each message was sent, Unix milliseconds, and its id.
        """
        backwards = NewestFirst(self.before)
        scores = [backwards.score(sent_ms, id) for sent_ms, id in reversed(batch)][::-1]
        for at, (_, id) in enumerate(batch):
            if self.last is not None:
                previous, previous_id = self.last
                lowest = previous if id > previous_id else previous + 1
                scores[at] = max(scores[at], lowest)
            self.last = scores[at], id
            self.first = scores[at] if self.first is None else min(self.first, scores[at])
        return scores


class CopyConverter:
    """
    A converter of the messages of a source that is copied.

    They are read from the last to the first. Each run gives a message the same id.
    """

    def __init__(self, kind: str, begun_us: int) -> None:
        """
        Create a converter, which begins at the last message.

        Args:
            kind: the kind of source.
            begun_us: when the copy was opened, Unix microseconds: the sent time of messages that
                have none.
        """
        self._kind = kind
        self._begun_us = begun_us
        self._order = NewestFirst()

    def convert(self, items: Sequence[Item], now_us: int) -> list[IncomingMessage]:
        """
        Return the messages as the target queue stores them.

        Args:
            items: the messages of the source. One without an identity can't be copied: it becomes
                an ``IncomingMessage`` without a message.
            now_us: the current time, Unix microseconds. No ready message gets a later score, even
                if the clock of its sender was ahead.
        """
        return [self._convert(item, now_us) for item in items]

    def _convert(self, item: Item, now_us: int) -> IncomingMessage:
        if not item.identity:
            return IncomingMessage(b"", None)
        digest = make_digest(self._kind, item.identity)
        if item.body is None:
            return IncomingMessage(digest, None)
        us = self._begun_us if item.sent_us is None else item.sent_us
        id = item.id or derive_id(us, self._kind, item.identity)
        score = item.due_ms
        if score is None:
            score = self._order.score(min(us, now_us) // 1000, id)
        return _make_incoming(digest, item, id, score)


class MoveConverter:
    """
    A converter of the messages of a source that is moved.

    They are removed from the first to the last, in batches.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._ids = NumberedIds()
        self._order = OldestFirst()

    @property
    def first(self) -> int | None:
        """The lowest score, Unix milliseconds; None before the first message in order."""
        return self._order.first

    @property
    def last(self) -> tuple[int, str] | None:
        """The score and the id of the last message in order; None before the first one."""
        return self._order.last

    @property
    def watermark(self) -> bytes:
        """The last score, the lowest, and the id of the last message; empty before the first."""
        if self._order.last is None:
            return b""
        score, id = self._order.last
        first = score if self._order.first is None else self._order.first
        return f"{score} {first} {id}".encode()

    def continue_from(self, watermark: bytes) -> None:
        """
        Continue in the order of another run.

        Args:
            watermark: the watermark of that run; empty if there is none.
        """
        self._order.first = self._order.last = None
        if watermark:
            score, first, id = watermark.decode().split(" ", 2)
            self.continue_after(int(score), id)
            self._order.first = int(first)

    def continue_after(self, score: int, id: str) -> None:
        """Continue behind a message of another order, unless the converter is behind it already."""
        if self._order.last is None or self._order.last < (score, id):
            self._order.last = score, id
            self._ids.continue_after(id)

    def include(self, score: int, id: str) -> None:
        """Continue behind a message of the same order."""
        self.continue_after(score, id)
        first = self._order.first
        self._order.first = score if first is None else min(first, score)

    def stay_before(self, score: int | None) -> None:
        """
        Put the next messages before others.

        Args:
            score: the score of the first of the others, Unix milliseconds; None if there are none.
        """
        self._order.before = score

    def convert(self, items: Sequence[Item], now_us: int) -> list[IncomingMessage]:
        """
        Return the messages as the target queue stores them.

        Args:
            items: the messages of the source; they need no identity.
            now_us: the current time, Unix microseconds: the sent time of messages that have none.
                No ready message gets a later score, unless a message before it has one.
        """
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
            _make_incoming(
                make_digest(self._kind, item.identity) if item.identity else b"",
                item,
                id,
                next(scores) if is_in_order else item.due_ms,
            )
            for item, id, is_in_order in zip(items, ids, in_order, strict=True)
        ]


def _make_incoming(digest: bytes, item: Item, id: str, score: int | None) -> IncomingMessage:
    if item.body is None:
        return IncomingMessage(digest, None)
    message = RestoredMessage(
        id,
        item.body,
        score,
        item.receive_count,
        item.first_received_ms,
        item.records,
    )
    return IncomingMessage(digest, message, item.unique_key)
