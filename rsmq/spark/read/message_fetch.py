"""
The reading of bodies and counters by the ids of messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rsmq.operations.reading import count_fitting
from rsmq.spark.connections import SparkServer
from rsmq.spark.read.field_request import pack_fields
from rsmq.transport.threads.pending import PendingCall
from rsmq.wire.fields import FIRST_RECEIVED_SUFFIX, RECEIVE_COUNT_SUFFIX
from rsmq.wire.keys import QueueKeys
from rsmq.wire.stored import parse_integer

#: A read is not measured before if all its bodies together would be small enough even if each was
#: so many times larger than the largest that was read.
_SIZE_MARGIN = 16

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


@dataclass(frozen=True, slots=True)
class PendingMessages:
    """
    Messages whose fields are on their way.

    Attributes:
        suffixes: the ends of the names of the fields of each message.
        request: the request of the fields; None if none is needed.
    """

    ids: Sequence[bytes]
    suffixes: list[bytes]
    request: PendingCall[list[Any]] | None

    def abandon(self) -> None:
        """Discard the fields; without an effect if they were read."""
        if self.request is not None:
            self.request.abandon()


class MessageFetch:
    """
    A reader of the messages of a queue by their ids, one call after another.

    The fields of the next messages can be on their way while those of the last ones are used.

    Most messages of most queues have no counters, because they were never received. So it reads
    the time of the first receive only of messages that have a receive count.
    """

    def __init__(
        self,
        server: SparkServer,
        keys: QueueKeys,
        wanted: Wanted,
        max_bytes: int,
        *,
        is_mixed: bool,
    ) -> None:
        """
        Read nothing yet.

        Args:
            server: the server of the queue.
            wanted: the fields that the read needs.
            max_bytes: the most bytes of bodies of a read, about; a single body may be larger.
            is_mixed: whether ids come in no order, as those of a scan do. Then the bodies of a read
                are a sample of all bodies, and what was read before says how large they are.
        """
        self._server = server
        self._keys = keys
        self._wanted = wanted
        self._max_bytes = max_bytes
        self._is_mixed = is_mixed
        self._largest: int | None = None
        self._reads_both_counters = False

    def count_next(self, ids: Sequence[bytes]) -> int:
        """Return how many of the ids to read next, at least one, so that the bodies fit."""
        if not self._wanted.bodies:
            return len(ids)
        if self.is_small(ids):
            return len(ids)
        return self._server.rsmq.run(count_fitting(self._keys, ids, self._max_bytes))

    def is_small(self, ids: Sequence[bytes]) -> bool:
        """Return whether the bodies of messages are small, by those that were read before."""
        if not self._wanted.bodies:
            return True
        if not self._is_mixed or self._largest is None:
            return False
        return self._largest * _SIZE_MARGIN * len(ids) <= self._max_bytes

    def begin(self, ids: Sequence[bytes]) -> PendingMessages:
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
        return PendingMessages(ids, suffixes, request)

    def finish(self, pending: PendingMessages) -> dict[str, list[Any]]:
        """
        Return the columns ``raw``, ``receive_count`` and ``first_received``, as far as wanted.

        The values of a message are those of one moment. A missing value is None.
        """
        wanted, ids = self._wanted, pending.ids
        fields: dict[bytes, list[bytes | None]] = {}
        if pending.request is not None:
            fields = _divide(pending.request.finish()[0], pending.suffixes)
        if wanted.first_received:
            self._complete(ids, fields)
        columns: dict[str, list[Any]] = {}
        if wanted.bodies:
            columns["raw"] = fields[b""]
            self._largest = max(self._largest or 0, *map(_length, fields[b""]))
        if wanted.receive_counts or wanted.first_received:
            columns["receive_count"] = _parse(fields[RECEIVE_COUNT_SUFFIX], unreadable=0)
        if wanted.first_received:
            columns["first_received"] = _parse(fields[FIRST_RECEIVED_SUFFIX], unreadable=None)
        return columns

    def _complete(self, ids: Sequence[bytes], fields: dict[bytes, list[bytes | None]]) -> None:
        """
        Add the times of the first receive; read received messages again, with all their fields.

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
            fields[FIRST_RECEIVED_SUFFIX] = [None] * len(ids)
            if number:
                places = [place for place, count in enumerate(counts) if count is not None]
                received, suffixes = [ids[place] for place in places], list(fields)
                again = self._server.hmget(self._keys.hash, received, suffixes)
                for suffix, values in _divide(again, suffixes).items():
                    column = fields[suffix]
                    for place, value in zip(places, values, strict=True):
                        column[place] = value
        self._reads_both_counters = number > _RECEIVED_SHARE * len(ids)


def _divide(values: list[bytes | None], suffixes: list[bytes]) -> dict[bytes, list[bytes | None]]:
    """Return the values of each suffix, in the order of the ids."""
    return {suffix: values[place :: len(suffixes)] for place, suffix in enumerate(suffixes)}


def _length(raw: bytes | None) -> int:
    return 0 if raw is None else len(raw)


def _parse(values: list[bytes | None], *, unreadable: int | None) -> list[int | None]:
    """Return whole numbers, and ``unreadable`` for a value that is not one."""
    if values.count(None) == len(values):
        return values  # type: ignore[return-value]  # each is None
    return [
        None if value is None else unreadable if (n := parse_integer(value)) is None else n
        for value in values
    ]
