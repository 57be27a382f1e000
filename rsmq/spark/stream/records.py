"""
The batches of a stream in Redis: those in flight, with their messages, and the last acknowledged.
"""

from __future__ import annotations

import json
import secrets
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgpack

from rsmq.errors import NewerVersion
from rsmq.operations.operation import Command
from rsmq.spark.connection_options import ConnectionOptions
from rsmq.spark.connections import SparkQueue, SparkServer, get_queue, get_servers, pack_fields
from rsmq.spark.operations.batches import (
    Batch,
    PartReceipts,
    acknowledge_leased,
    name_part,
    parse_part_sizes,
    parse_receipts,
)
from rsmq.spark.read.source_options import SourceOptions, StreamOptions
from rsmq.transport.threads.pending import PendingCall
from rsmq.wire.fields import RECEIVE_COUNT_SUFFIX

T = TypeVar("T")

#: The version of the offsets of one namespace. An offset without a version, of an earlier library,
#: has the same form: ``queues`` has the messages by queue.
OFFSET_VERSION = 1
#: The version of the offsets of several namespaces: ``queues`` has the messages by namespace and
#: queue.
SEVERAL_VERSION = 2

#: How many messages of a batch each queue has.
QueueCounts: TypeAlias = Mapping[SparkQueue, int]


@dataclass(frozen=True)
class StreamIdentity:
    """
    The names of a stream, and the options of its process.

    Attributes:
        name: the name under which Redis stores its batches.
        holder: the id of this process, as the owner of that name.
    """

    name: str
    source: SourceOptions
    options: StreamOptions
    holder: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def is_named(self) -> bool:
        """Whether the name is a consumer group."""
        return self.options.consumer_group is not None

    @cached_property
    def query(self) -> str:
        """The name of the query: queries of different queues may have the same consumer group."""
        if not self.is_named:
            return self.name
        return f"{self.name}:{self.source.pattern or ','.join(sorted(self.source.queues))}"

    @property
    def description(self) -> str:
        """The queues, the namespaces and the consumer group, for people."""
        queues = self.source.pattern or ",".join(self.source.queues)
        group = f", consumerGroup {self.name}" if self.is_named else ""
        return f"rsmq queue {queues} of namespace {','.join(self.source.connection.names)}{group}"

    @cached_property
    def servers(self) -> list[SparkServer]:
        """The server of each namespace."""
        return get_servers(self.source.connection)

    def name_batch(self, number: int) -> Batch:
        return Batch(self.name, number, self.query, self.holder)

    def make_offset(self, number: int, counts: QueueCounts) -> dict[str, Any]:
        """
        Return the offset of a batch.

        That of one namespace has its name, which offsets of earlier libraries lack. Only an offset
        whose query has another name than its stream has that name.
        """
        stored = self.store_counts(counts)
        offset: dict[str, Any] = {
            "version": OFFSET_VERSION, "lease": self.name, "batch": number, "queues": stored,
        }  # fmt: skip
        names = self.source.connection.names
        if len(names) > 1 or any(isinstance(each, dict) for each in stored.values()):
            offset["version"] = SEVERAL_VERSION
        else:
            offset["ns"] = names[0]
        return offset if self.query == self.name else {**offset, "query": self.query}

    def store_counts(self, counts: QueueCounts) -> dict[str, Any]:
        """Return counts as they are stored: by queue, or by namespace and queue if several are."""
        names = self.source.connection.names
        by_ns: dict[str, dict[str, int]] = {}
        for queue, count in counts.items():
            by_ns.setdefault(queue.server.namespace.name, {})[queue.keys.name] = count
        return by_ns if len({*names, *by_ns}) > 1 else by_ns.get(names[0], {})

    def find_counts(self, offset: dict[str, Any]) -> QueueCounts:
        """Return how many messages of a batch each queue has, from its offset."""
        return parse_counts(self.source.connection, offset["queues"], offset.get("ns"))


def parse_counts(
    connection: ConnectionOptions, stored: dict[str, Any], ns: str | None
) -> QueueCounts:
    """
    Return counts from their stored form.

    Args:
        ns: the namespace of counts by queue; None is the first of the connection. A connection of
            one namespace reads all of them there.
    """
    if ns is None or len(connection.names) == 1:
        ns = connection.names[0]
    by_ns = stored if any(isinstance(each, dict) for each in stored.values()) else {ns: stored}
    return {
        get_queue(connection, name, queue): count
        for name, counts in by_ns.items()
        for queue, count in counts.items()
    }


def find_names(offset: dict[str, Any]) -> set[str]:
    """Return the namespaces of a batch, from its offset; none if an offset of one lacks it."""
    if offset.get("version") == SEVERAL_VERSION:
        return set(offset["queues"])
    return {offset["ns"]} if "ns" in offset else set()


def check_version(offset: dict[str, Any]) -> None:
    """
    Refuse an offset of a form that this library does not know.

    Raises:
        NewerVersion: a newer version of this library has written it.
    """
    version = offset.get("version", OFFSET_VERSION)
    if version not in (OFFSET_VERSION, SEVERAL_VERSION):
        raise NewerVersion("The checkpoint", version)


class Acknowledged(NamedTuple):
    """
    The last acknowledged batch of a query, of those that its namespaces have stored.

    Attributes:
        number: the number of the batch, or 0.
        holders: the ids of the processes that may receive for the query, at most one in each
            namespace.
        counts: what the offset of the batch counts; None if that was not stored.
    """

    number: int
    holders: set[bytes]
    counts: QueueCounts | None


class BatchRecords:
    """The batches in flight of a stream, and the last one that was acknowledged."""

    def __init__(self, stream: StreamIdentity) -> None:
        self._stream = stream

    def read_acknowledged(self, servers: Iterable[SparkServer] | None = None) -> Acknowledged:
        """Return the last batch that was acknowledged on any of some servers; None is all."""
        found: list[tuple[int, QueueCounts | None]] = []
        holders: set[bytes] = set()
        for server in self._stream.servers if servers is None else servers:
            stored = server.call("HGET", server.namespace.acknowledged, self._stream.query)
            if stored is not None:
                number, text, _, *holder = msgpack.unpackb(stored, raw=True)
                found.append((int(number), self._parse_counts(server, text)))
                holders.update(holder)
        last, counts = max(
            found, key=lambda each: (each[0], each[1] is not None), default=(0, None)
        )
        return Acknowledged(last, holders, counts)

    def _parse_counts(self, server: SparkServer, text: bytes) -> QueueCounts | None:
        if not text:
            return None
        connection = self._stream.source.connection
        return parse_counts(connection, json.loads(text), server.namespace.name)

    def read_sizes(self, number: int, queues: Iterable[SparkQueue]) -> dict[SparkQueue, list[int]]:
        """Return the sizes of the parts of a batch, by each queue that has some."""
        batch = str(self._stream.name_batch(number))
        found = {}
        for queue in queues:
            packed = queue.server.call("HGET", queue.keys.leases, batch)
            if sizes := parse_part_sizes(packed):
                found[queue] = sizes
        return found

    def read_counts(self, number: int, queues: Iterable[SparkQueue]) -> QueueCounts:
        """Return how many messages of a batch are in flight."""
        found = self.read_sizes(number, queues)
        return {queue: sum(sizes) for queue, sizes in found.items()}

    def read_in_flight(self, queues: Iterable[SparkQueue]) -> set[int]:
        """Return the numbers of the batches in flight."""
        numbers: set[int] = set()
        for queue in queues:
            fields = queue.server.call("HKEYS", queue.keys.leases)
            numbers.update(
                int(field.split(b":")[1])
                for field in fields
                if field.startswith(f"{self._stream.name}:".encode()) and field.count(b":") == 1
            )
        return numbers

    def find_start(self, queues: Sequence[SparkQueue]) -> tuple[int, QueueCounts]:
        """
        Return the batch after which a new checkpoint of a named stream starts.

        Returns:
            The number of the batch: the last that was acknowledged, or the one before the first
            batch in flight, whichever is higher; 0 if there is none. And how many messages of this
            batch an interrupted acknowledgement has left.
        """
        last = self.read_acknowledged().number
        last = max(last, min(self.read_in_flight(queues), default=1) - 1)
        return last, self.read_counts(last, queues)

    def find_last(self, queues: Sequence[SparkQueue]) -> tuple[int, QueueCounts, bool]:
        """
        Return the batch that was received last, by any process.

        Returns:
            The number of the batch, or 0. The count of its offset. And whether its acknowledgement
            has begun: Spark has committed it.
        """
        done = self.read_acknowledged()
        last = max(done.number, *self.read_in_flight(queues), 0)
        counts = done.counts if last == done.number else None
        if counts is None:
            counts = self.read_counts(last, queues)
        return last, counts, last == done.number

    def is_in_flight(self, number: int, queues: Sequence[SparkQueue]) -> bool:
        """Return whether a batch is in flight, and its acknowledgement has not begun."""
        return self.read_acknowledged().number < number and number in self.read_in_flight(queues)


@dataclass(slots=True)
class AcknowledgedCounts:
    """
    Counts of messages in batches that are done.

    Attributes:
        acknowledged: messages that were deleted.
        lost: messages that were not deleted, because another consumer had received them meanwhile.
    """

    acknowledged: int = 0
    lost: int = 0


def acknowledge_parts(
    queue: SparkQueue,
    batch: Batch,
    parts: int,
    tally: AcknowledgedCounts,
    counts: dict[str, Any] | None,
    *,
    latest_ms: int | None = None,
) -> None:
    """
    Delete the messages of a batch with so many parts, and its receipts; add them to ``tally``.

    Each part is one atomic step. A batch without parts is stored as acknowledged, too.

    Args:
        counts: what the offset of the batch counts, as it is stored; None stores nothing of it.
        latest_ms: when the next messages of the groups are due, as in ``acknowledge_leased``.
    """
    server, keys = queue.server, queue.keys
    text = b"" if counts is None else json.dumps(counts).encode()
    for part in range(max(1, parts)):
        operation = acknowledge_leased(
            server.namespace,
            keys,
            batch,
            part,
            counts=b"" if part else text,
            latest_ms=latest_ms,
        )
        deleted, lost = server.rsmq.run(operation)
        tally.acknowledged += deleted
        tally.lost += lost
    server.call("HDEL", keys.leases, str(batch))


def read_leased_parts(
    queue: SparkQueue, batch: Batch, parts: Iterable[int]
) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """
    Yield each part with its messages whose receipts are still valid; change nothing.

    The next part is on its way while the caller uses a part: behind the scripts of other parts,
    each reply takes Redis some ms. Commands without a script: a script takes three times as long,
    because it copies each body into a string of Lua and back.

    Yields:
        The number of the part, and the columns ``id`` and ``raw`` (bytes), ``receive_count``, and
        ``first_received`` in Unix ms. The bodies and the receive counts are those of one moment.
        None if the part does not exist.
    """
    server, keys = queue.server, queue.keys

    def begin_messages(part: int, packed: bytes | None) -> tuple[Any, PendingCall[list[Any]]]:
        receipts = None if packed is None else parse_receipts(packed)
        # A part that exists after the messages were read existed before, too: it was not purged.
        commands: list[Command] = [(b"HEXISTS", keys.leases, name_part(batch, part))]
        if receipts is not None:
            commands.append(pack_fields(keys.hash, receipts.ids, (b"", RECEIVE_COUNT_SUFFIX)))
        return (part, receipts), server.begin_request(commands[::-1])

    stored = _finish_behind(
        (part, server.begin_request([(b"HGET", keys.leases, name_part(batch, part))]))
        for part in parts
    )
    found = _finish_behind(begin_messages(part, packed) for part, (packed,) in stored)
    for (part, receipts), (*values, is_stored) in found:
        yield part, _select_valid(receipts, values[0]) if receipts and is_stored else None


def _finish_behind(
    begun: Iterable[tuple[T, PendingCall[list[Any]]]],
) -> Iterator[tuple[T, list[Any]]]:
    """Yield the results of requests, each after the next one was begun."""
    pending: deque[tuple[T, PendingCall[list[Any]]]] = deque()
    try:
        for each in begun:
            pending.append(each)
            if len(pending) > 1:
                yield pending[0][0], pending[0][1].finish()
                pending.popleft()
        yield from ((name, request.finish()) for name, request in pending)
    finally:
        for _, request in pending:
            request.abandon()


def _select_valid(receipts: PartReceipts, values: list[bytes | None]) -> dict[str, Any]:
    """Return the columns of the messages whose receipts are valid, from bodies and counts."""
    bodies, counts = values[::2], values[1::2]
    columns: dict[str, Sequence[Any]] = {
        "id": receipts.ids,
        "raw": bodies,
        "receive_count": receipts.receive_counts,
        "first_received": receipts.first_received_ms,
    }
    valid = receipts.find_valid(
        [
            raw is not None and count == b"%d" % receive_count
            for raw, count, receive_count in zip(
                bodies, counts, receipts.receive_counts, strict=True
            )
        ]
    )
    if len(valid) == len(receipts.ids):
        return columns
    return {name: [column[place] for place in valid] for name, column in columns.items()}
