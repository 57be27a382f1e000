"""
The batch source: reads queues, and changes nothing in Redis.

By default tasks scan the ids in steps, so no command blocks the server for long, and the driver has
no ids in its memory. With ``snapshot=exact`` the driver reads all ids in one transaction.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType
from redis.exceptions import NoPermissionError

from rsmq.errors import ScanBroken
from rsmq.operations.plain import parse_time_us
from rsmq.operations.reading import read_records
from rsmq.spark.connections import SparkServer, get_server, get_servers, spare_loaded_modules
from rsmq.spark.read.message_fetch import MessageFetch, Wanted, fetch_columns
from rsmq.spark.read.record_batch import (
    build_arrow_schema,
    build_record_batch,
    decode_lossy,
    to_unix_us,
)
from rsmq.spark.read.scan import SeenIds, Shard, count_shards, parse_scores, scan_shard
from rsmq.spark.read.sent_columns import read_facts
from rsmq.spark.read.source_options import SnapshotOptions, SourceOptions
from rsmq.vocabulary.stored import GROUP
from rsmq.wire.ids import has_reserved_ids, is_reserved_id, parse_sent_us
from rsmq.wire.keys import QueueKeys
from rsmq.wire.names import decode_name

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter  # not in PySpark 4.0

#: How long an exact snapshot may take: at least, and for each message. Redis needs 2 us for one.
_SNAPSHOT_SECONDS = 5.0
_SNAPSHOT_SECONDS_PER_MESSAGE = 50e-6

#: A read of more ids than this that filters name scans the queues.
_MAX_PUSHED_IDS = 10_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: By the name of Spark's filter.
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "EqualTo": lambda value, other: value == other,
    "GreaterThan": lambda value, other: value > other,
    "GreaterThanOrEqual": lambda value, other: value >= other,
    "LessThan": lambda value, other: value < other,
    "LessThanOrEqual": lambda value, other: value <= other,
    "In": lambda value, others: value in others,
    "StringStartsWith": lambda value, start: value.startswith(start),
    "IsNotNull": lambda value, _: value is not None,
}

#: States that differ in the receive count, which is not part of a snapshot.
_STATES_BY_RECEIVE_COUNT = ("in_flight", "delayed", "held_back")
#: States of messages that were never received, and differ in whether they are held back.
_STATES_BY_GROUP = ("delayed", "held_back")


class SnapshotPartition(InputPartition):
    """
    Some messages of one queue.

    Attributes:
        ns: the namespace of the queue.
        queue: the queue's name.
        visible_at_ms: the times when the messages become visible, Unix ms; None if the schema has
            no such column.
    """

    def __init__(
        self, ns: str, queue: str, ids: list[bytes], visible_at_ms: array[float] | None
    ) -> None:
        super().__init__(None)
        self.ns = ns
        self.queue = queue
        self.visible_at_ms = visible_at_ms
        # Many small objects take Spark longer to send than one large one.
        joined = b"\n".join(ids)
        self._ids: bytes | list[bytes] = joined if joined.count(b"\n") == len(ids) - 1 else ids

    @property
    def ids(self) -> list[bytes]:
        """The ids of the messages."""
        return self._ids.split(b"\n") if isinstance(self._ids, bytes) else self._ids


class ScanPartition(InputPartition):
    """
    A shard of the ids of one queue, which its task scans.

    Attributes:
        ns: the namespace of the queue.
        queue: the queue's name.
        now_ms: the time of the server when the read was planned, Unix ms.
        server_run: the server's run when the read was planned; None if it is unknown.
    """

    def __init__(
        self, ns: str, queue: str, shard: Shard, now_ms: int, server_run: bytes | None
    ) -> None:
        super().__init__(None)
        self.ns = ns
        self.queue = queue
        self.shard = shard
        self.now_ms = now_ms
        self.server_run = server_run


@dataclass(frozen=True, slots=True)
class _PushedFilter:
    """A filter that Spark pushed down: it compares a column that the snapshot has with a value."""

    column: str
    kind: str
    value: Any

    def matches(self, row: dict[str, Any]) -> bool:
        value = row[self.column]
        return value is not None and _COMPARISONS[self.kind](value, self.value)


class SnapshotReader(DataSourceReader):
    """
    A reader of the messages that are in the queues.

    A message that is in its queue during the whole read is read once, even if consumers receive it
    meanwhile. An exact snapshot has the messages of one moment, in each namespace. A message that
    is deleted before its task reads it is left out, if the read has a column with bodies.
    """

    def __init__(self, source: SourceOptions, options: SnapshotOptions, schema: StructType) -> None:
        self._source = source
        self._options = options
        self._schema = schema
        self._filters: list[_PushedFilter] = []

    def partitions(self) -> list[InputPartition]:
        """Return partitions of about the same size, each of one queue."""
        ids = self._find_pushed_ids()
        if self._options.is_exact or ids is not None:
            return self._plan_snapshot(ids)
        found: list[tuple[str, QueueKeys, int, int, bytes | None]] = []
        for server in self._find_servers():
            queues = server.find_queues(self._source)
            sizes = [int(server.call("ZCARD", keys.zset)) for keys in queues]
            now_ms, server_run = server.now_ms(), server.read_run()
            for keys, messages in zip(queues, sizes, strict=True):
                found.append((server.namespace.name, keys, messages, now_ms, server_run))
        size = self._partition_size(sum(messages for _, _, messages, _, _ in found))
        partitions: list[InputPartition] = []
        for ns, keys, messages, now_ms, server_run in found:
            total = count_shards(messages, -(-messages // size)) if server_run else 1
            partitions += [
                ScanPartition(ns, keys.name, Shard(number, total), now_ms, server_run)
                for number in range(total)
                if messages
            ]
        return partitions

    def _find_pushed_ids(self) -> set[str] | None:
        """Return the only ids that the filters may select; None if these are not known or many."""
        wanted = [
            {each.value} if each.kind == "EqualTo" else set(each.value)
            for each in self._filters
            if each.column == "id" and each.kind in ("EqualTo", "In")
        ]
        if not wanted:
            return None
        ids = set.intersection(*wanted) - {None}
        # U+FFFD stands for bytes that are not UTF-8, which may be any.
        is_exact = not any("\ufffd" in id for id in ids)
        return ids if is_exact and len(ids) <= _MAX_PUSHED_IDS else None

    def _find_servers(self) -> list[SparkServer]:
        """Return the servers of the namespaces that the filters select."""
        filters = [each for each in self._filters if each.column == "ns"]
        return [
            server
            for server in get_servers(self._source.connection)
            if all(each.matches({"ns": server.namespace.name}) for each in filters)
        ]

    def _partition_size(self, messages: int) -> int:
        share = -(-messages // self._source.num_partitions)
        return max(1, min(self._source.max_ids_per_partition, share))

    def _plan_snapshot(self, ids: set[str] | None) -> list[InputPartition]:
        """Take an exact snapshot of each namespace, of some ids or of all, and divide it."""
        selected = []
        for server in self._find_servers():
            queues = server.find_queues(self._source)
            if ids is None:
                snapshot = _take_snapshot(server, queues)
            else:
                snapshot = _look_up(server, queues, ids)
            selected += [
                (server.namespace.name, keys.name, *self._select(keys.name, now_ms, members))
                for keys, now_ms, members in snapshot
            ]
        size = self._partition_size(sum(len(ids) for _, _, ids, _ in selected))
        with_scores = "visible_at" in self._schema.fieldNames()
        return [
            SnapshotPartition(
                ns,
                queue,
                ids[begin : begin + size],
                scores[begin : begin + size] if with_scores else None,
            )
            for ns, queue, ids, scores in selected
            for begin in range(0, len(ids), size)
        ]

    def _select(
        self, queue: str, now_ms: int, members: list[bytes]
    ) -> tuple[list[bytes], array[float]]:
        """Return the ids and the scores that options and filters select among the members."""
        ids, scores = members[::2], parse_scores(members[1::2])
        if has_reserved_ids(ids):
            pairs = zip(ids, scores, strict=True)
            kept = [pair for pair in pairs if not is_reserved_id(pair[0])]
            ids, scores = [id for id, _ in kept], array("d", (score for _, score in kept))
        options = self._options
        if options.include == "visible":
            places = [place for place, score in enumerate(scores) if score <= now_ms]
        elif options.include != "all":
            places = [place for place, score in enumerate(scores) if score > now_ms]
        else:
            places = list(range(len(ids)))
        if options.sent_from_us is not None or options.sent_before_us is not None:
            first, end = options.sent_from_us or 0, options.sent_before_us
            sent = {place: parse_sent_us(decode_name(ids[place])) for place in places}
            places = [
                place
                for place in places
                if (us := sent[place]) is not None and us >= first and (end is None or us < end)
            ]
        if self._filters:
            places = [p for p in places if self._matches(queue, ids[p], scores[p])]
        if len(places) < len(ids):
            return [ids[p] for p in places], array("d", (scores[p] for p in places))
        return ids, scores

    def _matches(self, queue: str, raw_id: bytes, score: float) -> bool:
        row = {
            "queue": queue,
            "id": decode_lossy(raw_id),
            "sent": _to_datetime(parse_sent_us(decode_name(raw_id))),
            "visible_at": _to_datetime(to_unix_us(score)),
        }
        return all(each.matches(row) for each in self._filters if each.column != "ns")

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield record batches of a partition's messages."""
        # Spark calls this with a partition of its own if the reader returned none.
        if not isinstance(partition, SnapshotPartition | ScanPartition):
            return
        spare_loaded_modules()
        server = get_server(self._source.connection, partition.ns)
        keys = server.namespace.queue(partition.queue)
        schema = build_arrow_schema(self._schema)
        fetch = self._make_fetch(server, keys)
        if isinstance(partition, ScanPartition):
            parts = self._scan(server, keys, partition)
        else:
            parts = iter([(partition.ids, partition.visible_at_ms)])
        bodies = self._source.connection.bodies
        for columns in fetch_columns(fetch, parts, self._source.fetch_size):
            held_back = None
            if self._options.include in _STATES_BY_GROUP:
                held_back = _find_held_back(server, keys, columns["id"])
            selected = self._drop_unselected(columns, held_back)
            selected = read_facts(server, keys, selected, self._schema.fieldNames())
            if selected["id"]:
                yield build_record_batch(schema, keys, selected, bodies)

    def _scan(
        self, server: SparkServer, keys: QueueKeys, partition: ScanPartition
    ) -> Iterator[tuple[list[bytes], array[float] | None]]:
        """
        Yield the ids of a shard that options and filters select, each once, and their scores.

        The positions of ids are those of one run of a server. After a failover, a queue of one
        shard is scanned again, without the ids that were already read.

        Raises:
            ScanBroken: another server has taken over, or consumers have almost emptied the queue.
        """
        with_scores = "visible_at" in self._schema.fieldNames()
        seen = SeenIds()  # a step may repeat ids while the server resizes its table
        is_alone = partition.shard.total == 1
        begun_run, run = None, server.read_run() if is_alone else partition.server_run
        while begun_run is None or begun_run != run:
            begun_run = run
            for members in scan_shard(keys.name, partition.shard, server.make_scanner(keys)):
                new = seen.drop_seen(members)
                ids, scores = self._select(keys.name, partition.now_ms, new)
                yield ids, scores if with_scores else None
            run = server.read_run()
            if run is None:
                return
            if run != begun_run and not is_alone:
                reason = "another server has taken over, or the server was started again"
                raise ScanBroken(partition.queue, reason)

    def _make_fetch(self, server: SparkServer, keys: QueueKeys) -> MessageFetch:
        """Return a reader of what the schema and the options need of messages."""
        names = set(self._schema.fieldNames())
        wanted = Wanted(
            bodies=not names.isdisjoint({"message", "raw", "headers"}),
            receive_counts="receive_count" in names
            or self._options.include in _STATES_BY_RECEIVE_COUNT,
            first_received="first_received" in names,
        )
        return MessageFetch(server, keys, wanted, self._source.max_bytes)

    def _drop_unselected(
        self, columns: dict[str, Any], held_back: set[bytes] | None
    ) -> dict[str, Any]:
        """
        Drop messages that were deleted since the snapshot, or are not in the selected state.

        Args:
            held_back: the messages that are held back; None if the state does not depend on it.
        """
        keep = [True] * len(columns["id"])
        if "raw" in columns and None in columns["raw"]:
            keep = [raw is not None for raw in columns["raw"]]
        if self._options.include in _STATES_BY_RECEIVE_COUNT:
            must_be_received = self._options.include == "in_flight"
            keep = [
                kept and (count is not None) == must_be_received
                for kept, count in zip(keep, columns["receive_count"], strict=True)
            ]
        if held_back is not None:
            must_be_held_back = self._options.include == "held_back"
            keep = [
                kept and (id in held_back) == must_be_held_back
                for kept, id in zip(keep, columns["id"], strict=True)
            ]
        if not all(keep):
            columns = {
                name: [value for value, kept in zip(column, keep, strict=True) if kept]
                for name, column in columns.items()
            }
        counts = columns.get("receive_count")
        if counts is not None:
            has_none = counts.count(None) == len(counts)
            columns["receive_count"] = (
                [0] * len(counts) if has_none else [count or 0 for count in counts]
            )
        return columns


class PushdownReader(SnapshotReader):
    """
    A snapshot reader that applies filters on ns, queue, id, sent and visible_at itself.

    A separate class, because Spark refuses every reader with ``pushFilters`` while its setting
    ``spark.sql.python.filterPushdown.enabled`` is false.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take over the filters that ids and scores decide; return all others to Spark."""
        remaining = []
        for each in filters:
            attribute = getattr(each, "attribute", ())
            kind = type(each).__name__
            if kind in _COMPARISONS and attribute in (
                ("ns",), ("queue",), ("id",), ("sent",), ("visible_at",),
            ):  # fmt: skip
                value = getattr(each, "value", None)
                self._filters.append(_PushedFilter(attribute[0], kind, value))
            else:
                remaining.append(each)
        return remaining


def _find_held_back(server: SparkServer, keys: QueueKeys, ids: list[bytes]) -> set[bytes]:
    """
    Return those of some messages that are held back; none if the user lacks the right.

    Only messages whose ids have the mark of a group cost a command.
    """
    try:
        found = read_records(GROUP, server.hmget, keys.zset, keys.hash, ids)
        members = [each.text + b"\0" + id for id, each in found.items()]
        scores = server.call("ZMSCORE", keys.held_back, *members) if members else []
    except NoPermissionError:
        return set()
    return {id for id, score in zip(found, scores, strict=True) if score is not None}


def _take_snapshot(
    server: SparkServer, queues: list[QueueKeys]
) -> list[tuple[QueueKeys, int, list[bytes]]]:
    """
    Return, for each queue, the server's time in ms, and ids and scores in turn; atomic.

    The timeout grows with the queues. A read that exceeds it is not repeated: the server would do
    all of its work again, while the first read may still block it.
    """
    messages = sum(server.call("ZCARD", keys.zset) for keys in queues)
    seconds = _SNAPSHOT_SECONDS + _SNAPSHOT_SECONDS_PER_MESSAGE * messages
    commands = [(b"ZRANGE", keys.zset, b"0", b"-1", b"WITHSCORES") for keys in queues]
    time, *all_members = server.call_atomically([(b"TIME",), *commands], seconds)
    now_ms = parse_time_us(time) // 1000
    return [(keys, now_ms, members) for keys, members in zip(queues, all_members, strict=True)]


def _look_up(
    server: SparkServer, queues: list[QueueKeys], ids: set[str]
) -> list[tuple[QueueKeys, int, list[bytes]]]:
    """Return the same as ``_take_snapshot`` for some ids; atomic."""
    raw_ids = [id.encode() for id in sorted(ids)]
    if not raw_ids:
        return []
    commands = [(b"ZMSCORE", keys.zset, *raw_ids) for keys in queues]
    time, *all_scores = server.call_atomically([(b"TIME",), *commands])
    now_ms = parse_time_us(time) // 1000
    return [
        (
            keys,
            now_ms,
            [
                value
                for id, score in zip(raw_ids, scores, strict=True)
                if score is not None
                for value in (id, b"%r" % float(score))
            ],
        )
        for keys, scores in zip(queues, all_scores, strict=True)
    ]


def _to_datetime(us: int | None) -> datetime | None:
    return None if us is None else _EPOCH + timedelta(microseconds=us)
