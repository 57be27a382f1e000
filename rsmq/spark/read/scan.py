"""
A scan of the ids of a queue in shards, which several tasks read at the same time.

ZSCAN goes through the buckets of Redis's hash table in the order of their reversed numbers. In this
order an id has the same position however large the table is. A shard is a range of positions, so
each id belongs to one shard, and a step needs no snapshot. A step may go beyond the end of its
shard: then it is made again with a smaller COUNT, until it covers a single bucket at the end. Each
step begins before the ids of the one before are used.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rsmq.errors import ScanBroken
from rsmq.transport.threads.pending import PendingCall

_POSITIONS = 2**64

#: The number of ids that a step reads, about.
STEP_IDS = 2000

#: From this number of ids before the end of a shard on, a step reads one bucket.
_LAST_IDS = 32

#: Shards have at least this number of messages when a read is planned, and this number later:
#: the table of fewer messages could have fewer buckets than there are shards.
MIN_PLANNED_SHARD_IDS = 1024
MIN_SHARD_IDS = 256


@dataclass(frozen=True, slots=True)
class Shard:
    """
    A part of the ids of a queue.

    Attributes:
        number: the number of the shard, from 0.
        total: the number of shards of the queue, a power of two.
    """

    number: int
    total: int

    @property
    def begin(self) -> int:
        """The first position of the shard."""
        return _POSITIONS // self.total * self.number

    @property
    def end(self) -> int:
        """The position after the last one."""
        return _POSITIONS // self.total * (self.number + 1)


@dataclass(frozen=True, slots=True)
class ScanStep:
    """
    The reply of a step.

    Attributes:
        cursor: the cursor of the next step; 0 at the end of the table.
        members: ids and scores in turn.
        messages: the number of messages in the queue.
    """

    cursor: int
    members: list[bytes]
    messages: int


class PendingStep:
    """A step whose reply is read later."""

    def __init__(self, request: PendingCall[list[Any]]) -> None:
        """Use the request of ZSCAN and ZCARD."""
        self._request = request

    def finish(self) -> ScanStep:
        """Return the reply; the errors are those of ``PendingCall``."""
        (cursor, members), messages = self._request.finish()
        return ScanStep(int(cursor), members, messages)

    def abandon(self) -> None:
        """Discard the reply; without an effect after ``finish``."""
        self._request.abandon()


def count_shards(messages: int, wanted: int) -> int:
    """Return the number of shards for a queue: ``wanted`` or more, if it has enough messages."""
    most = messages // MIN_PLANNED_SHARD_IDS
    total = 1
    while total < wanted and 2 * total <= most:
        total *= 2
    return total


def scan_shard(
    queue: str, shard: Shard, begin_step: Callable[[int, int], PendingStep]
) -> Iterator[list[bytes]]:
    """
    Yield ids and scores in turn, of all messages of a shard; some of them may come twice.

    Args:
        queue: the queue's name, for errors.
        begin_step: begins a step, from a cursor and a COUNT.

    Raises:
        ScanBroken: consumers have almost emptied the queue.
    """
    if shard.total == 1:
        yield from _scan_all(begin_step)
        return
    position, count = shard.begin, STEP_IDS
    pending = begin_step(_reverse(position), count)
    try:
        while True:
            step = pending.finish()
            if step.messages < MIN_SHARD_IDS * shard.total:
                reason = "consumers have almost emptied it since the read was planned"
                raise ScanBroken(queue, reason)
            following = _reverse(step.cursor) if step.cursor else _POSITIONS
            if following > shard.end:
                if count == 1:  # the ids are those of the last bucket, which is in the next shard
                    return
                count = max(1, count // 4)
                pending = begin_step(_reverse(position), count)
                continue
            if following <= position:
                raise ScanBroken(queue, "the server does not scan it in the order of Redis")
            position = following
            if position == shard.end:
                yield step.members
                return
            ids_left = (shard.end - position) * step.messages // _POSITIONS
            count = 1 if ids_left < _LAST_IDS else min(STEP_IDS, ids_left // 2)
            pending = begin_step(_reverse(position), count)
            yield step.members
    finally:
        pending.abandon()


def _scan_all(begin_step: Callable[[int, int], PendingStep]) -> Iterator[list[bytes]]:
    pending = begin_step(0, STEP_IDS)
    try:
        while True:
            step = pending.finish()
            if not step.cursor:
                yield step.members
                return
            pending = begin_step(step.cursor, STEP_IDS)
            yield step.members
    finally:
        pending.abandon()


def _reverse(number: int) -> int:
    """Return a number of 64 bits with its bits in reverse order."""
    return int(f"{number:064b}"[::-1], 2)


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
