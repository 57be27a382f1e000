"""
The reading of bodies and counters by the ids of messages, step by step: Redis works while the
caller uses the last step.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rsmq.operations.reading import count_fitting
from rsmq.spark.connections import SparkServer, pack_fields
from rsmq.transport.threads.pending import PendingCall
from rsmq.wire.fields import FIRST_RECEIVED_SUFFIX, RECEIVE_COUNT_SUFFIX
from rsmq.wire.keys import QueueKeys
from rsmq.wire.stored import parse_integer

#: The number of bodies whose sizes are read before a read. They are chosen at random, so that no
#: order of the bodies hides large ones.
_SAMPLED_BODIES = 64

#: The bodies of a read are not measured one by one if they would fit even if each was so many times
#: as large as the largest of the sample and of the reads before.
_SIZE_MARGIN = 4

#: The most bytes that a value has in a reply beside the body, and those of a counter.
_VALUE_BYTES = 32

#: How many parts are requested before the one before them is yielded.
_PARTS_AHEAD = 2

#: From this share of received messages on, both counters of all messages are read at once.
_RECEIVED_SHARE = 1 / 4


@dataclass(frozen=True, slots=True)
class Wanted:
    """
    The fields that a read needs.

    Attributes:
        first_received: whether it needs the times of the first receive.
    """

    bodies: bool
    receive_counts: bool
    first_received: bool


@dataclass(slots=True)
class PendingMessages:
    """
    Messages whose fields are on their way.

    Attributes:
        suffixes: the ends of the names of the fields of each message.
        request: the request of the fields; None if none is needed.
        most_bytes: the most bytes of its reply that are read; None is any number.
        fields: the values by suffix, once they have arrived.
        received: the places of messages that are read again.
        again: their request.
    """

    ids: Sequence[bytes]
    suffixes: list[bytes]
    request: PendingCall[list[Any]] | None
    most_bytes: int | None
    fields: dict[bytes, list[bytes | None]] | None = None
    received: list[int] = field(default_factory=list)
    again: PendingCall[list[Any]] | None = None

    def abandon(self) -> None:
        """Discard what was not read yet."""
        for request in (self.request, self.again):
            if request is not None:
                request.abandon()


class MessageFetch:
    """
    A reader of the messages of a queue by their ids, one call after another.

    The fields of the next messages can be on their way while those of the last ones are used.

    Most messages of most queues have no counters, because they were never received. So it reads
    the time of the first receive only of messages that have a receive count.

    Most bodies are small. So a sample decides whether the bodies of a read are measured one by one
    first. A reply that is larger than the sample promised is not read to its end: this process
    never has more bytes than the caller permits.
    """

    def __init__(
        self, server: SparkServer, keys: QueueKeys, wanted: Wanted, max_bytes: int
    ) -> None:
        """
        Read nothing yet.

        Args:
            server: the server of the queue.
            wanted: the fields that the read needs.
            max_bytes: the most bytes of bodies of a read; a single body may be larger.
        """
        self._server = server
        self._keys = keys
        self._wanted = wanted
        self._max_bytes = max_bytes
        self._largest = 0
        self._reads_both_counters = False

    def begin_sample(self, ids: Sequence[bytes]) -> PendingCall[list[Any]] | None:
        """Request the sizes of some of the bodies, for ``is_small``; None if none are read."""
        if not self._wanted.bodies:
            return None
        chosen = random.sample(ids, _SAMPLED_BODIES) if len(ids) > _SAMPLED_BODIES else ids
        return self._server.begin_request([(b"HSTRLEN", self._keys.hash, id) for id in chosen])

    def is_small(self, ids: Sequence[bytes], sample: PendingCall[list[Any]] | None) -> bool:
        """Return whether the bodies probably fit into a read; finish the sample."""
        if sample is None:
            return True
        largest: int = max(self._largest, *sample.finish())
        return largest * _SIZE_MARGIN * len(ids) <= self._max_bytes

    def begin(self, ids: Sequence[bytes], *, is_measured: bool = False) -> PendingMessages:
        """Request the fields of messages; ``finish`` reads them."""
        wanted = self._wanted
        suffixes = [b""] if wanted.bodies else []
        if wanted.receive_counts or wanted.first_received:
            suffixes.append(RECEIVE_COUNT_SUFFIX)
        if self._reads_both_counters:
            suffixes.append(FIRST_RECEIVED_SUFFIX)
        request = None
        if suffixes:
            packed = pack_fields(self._keys.hash, ids, suffixes)
            request = self._server.begin_request([packed])
        most_bytes = None
        if wanted.bodies and not is_measured:
            most_bytes = self._max_bytes + _VALUE_BYTES * (1 + len(ids) * len(suffixes))
        return PendingMessages(ids, suffixes, request, most_bytes)

    def receive(self, pending: PendingMessages) -> bool:
        """
        Read the reply, and request the fields again that ``finish`` needs together.

        Returns:
            Whether the messages were read. Else they have too many bytes, or the connection broke:
            ``read_measured`` reads them.
        """
        values: list[bytes | None] = []
        if pending.request is not None:
            if pending.most_bytes is None:
                values = pending.request.finish()[0]
            else:
                replies = pending.request.finish_within(pending.most_bytes)
                if replies is None:
                    return False
                values = replies[0]
        pending.fields = _divide(values, pending.suffixes)
        if self._wanted.bodies:
            sizes = _measure(pending.fields[b""])
            self._largest = max(self._largest, *sizes)
            if pending.most_bytes is not None and sum(sizes) > self._max_bytes:
                return False
        if self._wanted.first_received:
            self._begin_again(pending, pending.fields)
        return True

    def finish(self, pending: PendingMessages) -> dict[str, list[Any]]:
        """
        Return the columns ``raw``, ``receive_count`` and ``first_received``, as far as wanted.

        The values of a message are those of one moment. A missing value is None.
        """
        wanted, fields = self._wanted, pending.fields or {}
        if pending.again is not None:
            again = _divide(pending.again.finish()[0], pending.suffixes)
            for suffix, values in again.items():
                column = fields[suffix]
                for place, value in zip(pending.received, values, strict=True):
                    column[place] = value
        columns: dict[str, list[Any]] = {}
        if wanted.bodies:
            columns["raw"] = fields[b""]
        if wanted.receive_counts or wanted.first_received:
            columns["receive_count"] = _parse(fields[RECEIVE_COUNT_SUFFIX], unreadable=0)
        if wanted.first_received:
            columns["first_received"] = _parse(fields[FIRST_RECEIVED_SUFFIX], unreadable=None)
        return columns

    def read_measured(self, ids: Sequence[bytes]) -> Iterator[tuple[int, dict[str, list[Any]]]]:
        """Yield how many of the next messages fit into a read, and their columns."""
        begin = 0
        while begin < len(ids):
            rest = ids[begin:]
            fitting = count_fitting(self._keys, rest, self._max_bytes)
            pending = self.begin(rest[: self._server.rsmq.run(fitting)], is_measured=True)
            try:
                self.receive(pending)
                yield len(pending.ids), self.finish(pending)
            finally:
                pending.abandon()
            begin += len(pending.ids)

    def _begin_again(
        self, pending: PendingMessages, fields: dict[bytes, list[bytes | None]]
    ) -> None:
        """
        Request received messages again, with all their fields, unless they have all.

        A message may be received or deleted between the two reads. Then it has the later state.
        """
        counts = fields[RECEIVE_COUNT_SUFFIX]
        number = len(counts) - counts.count(None)
        if FIRST_RECEIVED_SUFFIX in fields:
            # Without a receive count the time means nothing: the next receive overwrites it.
            fields[FIRST_RECEIVED_SUFFIX] = [
                None if count is None else first
                for count, first in zip(counts, fields[FIRST_RECEIVED_SUFFIX], strict=True)
            ]
        else:
            fields[FIRST_RECEIVED_SUFFIX] = [None] * len(counts)
            pending.suffixes.append(FIRST_RECEIVED_SUFFIX)
            if number:
                pending.received = [at for at, count in enumerate(counts) if count is not None]
                ids = [pending.ids[place] for place in pending.received]
                packed = pack_fields(self._keys.hash, ids, pending.suffixes)
                pending.again = self._server.begin_request([packed])
        self._reads_both_counters = number > _RECEIVED_SHARE * len(counts)


def _divide(values: list[bytes | None], suffixes: list[bytes]) -> dict[bytes, list[bytes | None]]:
    """Return the values of each suffix, in the order of the ids."""
    return {suffix: values[place :: len(suffixes)] for place, suffix in enumerate(suffixes)}


def _measure(raws: list[bytes | None]) -> list[int]:
    """Return the sizes of bodies; those that are missing count as empty."""
    try:
        return list(map(len, raws))  # type: ignore[arg-type]  # usually none is missing
    except TypeError:
        return [0 if raw is None else len(raw) for raw in raws]


def _parse(values: list[bytes | None], *, unreadable: int | None) -> list[int | None]:
    """Return whole numbers, and ``unreadable`` for a value that is not one."""
    if values.count(None) == len(values):
        return values  # type: ignore[return-value]  # each is None
    return [
        None if value is None else unreadable if (n := parse_integer(value)) is None else n
        for value in values
    ]


#: The ids of messages, and for each the time when it becomes visible; None if that is not needed.
Part = tuple[list[bytes], Any]


def fetch_columns(
    fetch: MessageFetch, parts: Iterator[Part], most: int
) -> Iterator[dict[str, Any]]:
    """
    Yield the columns of messages: ``id``, ``visible_at`` if it is known, and those of ``fetch``.

    Two parts are requested before the one before them is yielded, if their bodies are small: so
    Redis is never without work while this process converts the part.

    Args:
        parts: the ids of the messages.
        most: the most messages of a step.
    """
    ahead: deque[tuple[Part, PendingMessages]] = deque()
    sample = None
    try:
        for part in _divide_parts(parts, most):
            ids, _ = part
            sample = fetch.begin_sample(ids)
            is_full = len(ahead) == _PARTS_AHEAD
            is_complete = is_full and fetch.receive(ahead[0][1])
            is_small = fetch.is_small(ids, sample)
            if is_small:
                ahead.append((part, fetch.begin(ids)))
            if is_full:
                yield from _finish(fetch, *ahead.popleft(), is_complete=is_complete)
            if not is_small:
                yield from _finish_all(fetch, ahead)
                yield from _read_measured(fetch, part)
        yield from _finish_all(fetch, ahead)
    finally:
        if sample is not None:
            sample.abandon()
        for _, pending in ahead:
            pending.abandon()


def _finish_all(
    fetch: MessageFetch, ahead: deque[tuple[Part, PendingMessages]]
) -> Iterator[dict[str, Any]]:
    while ahead:
        is_complete = fetch.receive(ahead[0][1])
        yield from _finish(fetch, *ahead.popleft(), is_complete=is_complete)


def _divide_parts(parts: Iterator[Part], most: int) -> Iterator[Part]:
    for ids, times in parts:
        for begin in range(0, len(ids), most):
            yield _slice((ids, times), begin, begin + most)


def _slice(part: Part, begin: int, end: int) -> Part:
    ids, times = part
    return ids[begin:end], None if times is None else times[begin:end]


def _finish(
    fetch: MessageFetch, part: Part, pending: PendingMessages, *, is_complete: bool
) -> Iterator[dict[str, Any]]:
    """Yield the columns of messages; if they are too large for one step, in several."""
    if not is_complete:
        yield from _read_measured(fetch, part)
        return
    try:
        yield _name(part, fetch.finish(pending))
    finally:
        pending.abandon()


def _read_measured(fetch: MessageFetch, part: Part) -> Iterator[dict[str, Any]]:
    begin = 0
    for number, columns in fetch.read_measured(part[0]):
        yield _name(_slice(part, begin, begin + number), columns)
        begin += number


def _name(part: Part, columns: dict[str, Any]) -> dict[str, Any]:
    ids, times = part
    named = {"id": ids, **columns}
    return named if times is None else {**named, "visible_at": times}
