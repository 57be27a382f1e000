"""
The batch source: the messages of queues at one moment. Nothing in Redis changes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)
from pyspark.sql.types import StructType

from rsmq.spark.connections import Server, server
from rsmq.spark.options import SnapshotOptions, SourceOptions
from rsmq.spark.schema import arrow_schema, record_batch, shown, unix_us
from rsmq.wire.fields import FIRST_RECEIVED_SUFFIX, RECEIVE_COUNT_SUFFIX
from rsmq.wire.ids import has_reserved_ids, is_reserved_id, parse_sent_us
from rsmq.wire.keys import QueueKeys
from rsmq.wire.names import decode_name
from rsmq.wire.stored import parse_integer

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_COMPARISONS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: lambda value, other: value == other,
    GreaterThan: lambda value, other: value > other,
    GreaterThanOrEqual: lambda value, other: value >= other,
    LessThan: lambda value, other: value < other,
    LessThanOrEqual: lambda value, other: value <= other,
    In: lambda value, others: value in others,
    StringStartsWith: lambda value, start: value.startswith(start),
    IsNotNull: lambda value, _: value is not None,
}


#: States that only the count tells.
_BY_COUNT = ("in_flight", "delayed")


class SnapshotPartition(InputPartition):
    """Some messages of one queue: their ids, and the times when they become visible, if wanted."""

    def __init__(self, queue: str, ids: list[bytes], visible_at_ms: array[float] | None) -> None:
        super().__init__(None)
        self.queue = queue
        self.visible_at_ms = visible_at_ms
        # Many small objects take Spark longer to send than one large one.
        joined = b"\n".join(ids)
        self._ids: bytes | list[bytes] = joined if joined.count(b"\n") == len(ids) - 1 else ids

    @property
    def ids(self) -> list[bytes]:
        """The ids of its messages."""
        return self._ids.split(b"\n") if isinstance(self._ids, bytes) else self._ids


@dataclass(frozen=True, slots=True)
class _Test:
    """A filter that Spark leaves to us: on one column, by values known without a read."""

    column: str
    kind: type[Filter]
    value: Any

    def passes(self, known: dict[str, Any]) -> bool:
        value = known[self.column]
        return value is not None and _COMPARISONS[self.kind](value, self.value)


class SnapshotReader(DataSourceReader):
    """
    Reads the messages that are in the queues when the read is planned.

    One transaction takes all ids at once; bodies and counters are read later, in the tasks. So
    each message is read once, whoever receives meanwhile; those deleted in between are left out.
    """

    def __init__(self, source: SourceOptions, options: SnapshotOptions, schema: StructType) -> None:
        self._source = source
        self._options = options
        self._schema = schema
        self._tests: list[_Test] = []

    def partitions(self) -> list[InputPartition]:
        """Take the snapshot, and divide it."""
        at = server(self._source.connection)
        queues = at.queues(self._source)
        found = [
            (keys.name, *self._chosen(keys.name, now, members))
            for keys, now, members in _snapshot(at, queues)
        ]
        total = sum(len(ids) for _, ids, _ in found)
        most = self._source.ids_a_partition
        size = max(1, min(most, -(-total // self._source.partitions)))
        with_scores = "visible_at" in self._schema.fieldNames()
        return [
            SnapshotPartition(
                name, ids[at : at + size], scores[at : at + size] if with_scores else None
            )
            for name, ids, scores in found
            for at in range(0, len(ids), size)
        ]

    def _chosen(
        self, queue: str, now: int, members: list[bytes]
    ) -> tuple[list[bytes], array[float]]:
        ids, scores = members[::2], array("d", map(float, members[1::2]))
        if has_reserved_ids(ids):
            pairs = zip(ids, scores, strict=True)
            kept = [pair for pair in pairs if not is_reserved_id(pair[0])]
            ids, scores = [id for id, _ in kept], array("d", (score for _, score in kept))
        options = self._options
        if options.include == "visible":
            places = [place for place, score in enumerate(scores) if score <= now]
        elif options.include != "all":
            places = [place for place, score in enumerate(scores) if score > now]
        else:
            places = list(range(len(ids)))
        if options.from_us is not None or options.to_us is not None:
            first, end = options.from_us or 0, options.to_us
            sent = {place: parse_sent_us(decode_name(ids[place])) for place in places}
            places = [
                place
                for place in places
                if (us := sent[place]) is not None and us >= first and (end is None or us < end)
            ]
        if self._tests:
            places = [p for p in places if self._passes(queue, ids[p], scores[p])]
        if len(places) < len(ids):
            return [ids[p] for p in places], array("d", (scores[p] for p in places))
        return ids, scores

    def _passes(self, queue: str, raw_id: bytes, score: float) -> bool:
        known = {
            "queue": queue,
            "id": shown(raw_id),
            "sent": _moment(parse_sent_us(decode_name(raw_id))),
            "visible_at": _moment(unix_us(score)),
        }
        return all(test.passes(known) for test in self._tests)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Record batches of a partition's messages."""
        if not isinstance(partition, SnapshotPartition):  # Spark's stand-in for no partition
            return
        at = server(self._source.connection)
        keys = at.namespace.queue(partition.queue)
        schema = arrow_schema(self._schema)
        fetch = self._source.fetch
        ids, scores = partition.ids, partition.visible_at_ms
        for begin in range(0, len(ids), fetch):
            columns = self._read(at, keys, ids[begin : begin + fetch])
            if scores is not None:
                columns["visible_at"] = scores[begin : begin + fetch]
            columns = self._kept(columns)
            if columns["id"]:
                yield record_batch(schema, keys.name, columns)

    def _read(self, at: Server, keys: QueueKeys, ids: list[bytes]) -> dict[str, Any]:
        """What is stored of messages, as far as it is wanted; None where it is not there."""
        wanted = set(self._schema.fieldNames())
        suffixes = [b""] if wanted & {"message", "raw"} else []
        if "receive_count" in wanted or self._options.include in _BY_COUNT:
            suffixes.append(RECEIVE_COUNT_SUFFIX)
        if "first_received" in wanted:
            suffixes.append(FIRST_RECEIVED_SUFFIX)
        columns: dict[str, Any] = {"id": ids}
        if not suffixes:
            return columns
        values = at.hmget(keys.hash, [id + suffix for id in ids for suffix in suffixes])
        stored = {suffix: values[place :: len(suffixes)] for place, suffix in enumerate(suffixes)}
        if b"" in stored:
            columns["raw"] = stored[b""]
        if RECEIVE_COUNT_SUFFIX in stored:
            columns["receive_count"] = [
                None if count is None else parse_integer(count) or 0
                for count in stored[RECEIVE_COUNT_SUFFIX]
            ]
        if FIRST_RECEIVED_SUFFIX in stored:
            columns["first_received"] = [
                None if ms is None else parse_integer(ms) for ms in stored[FIRST_RECEIVED_SUFFIX]
            ]
        return columns

    def _kept(self, columns: dict[str, Any]) -> dict[str, Any]:
        """The same without messages that were deleted since, or are in another state."""
        keep = [True] * len(columns["id"])
        if "raw" in columns:
            keep = [raw is not None for raw in columns["raw"]]
        if self._options.include in _BY_COUNT:
            received = self._options.include == "in_flight"
            keep = [
                kept and (count is not None) == received
                for kept, count in zip(keep, columns["receive_count"], strict=True)
            ]
        if not all(keep):
            columns = {
                name: [value for value, kept in zip(column, keep, strict=True) if kept]
                for name, column in columns.items()
            }
        if "receive_count" in columns:
            columns["receive_count"] = [count or 0 for count in columns["receive_count"]]
        return columns


class PushdownReader(SnapshotReader):
    """
    The same, which takes filters over from Spark: those on queue, id, sent and visible_at.

    A class of its own, because Spark lets no reader with ``pushFilters`` read anything while its
    setting ``spark.sql.python.filterPushdown.enabled`` is false.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take what can be told from the ids and their scores; give back all other filters."""
        left = []
        for each in filters:
            attribute = getattr(each, "attribute", ())
            if type(each) in _COMPARISONS and attribute in (
                ("queue",), ("id",), ("sent",), ("visible_at",),
            ):  # fmt: skip
                self._tests.append(_Test(attribute[0], type(each), getattr(each, "value", None)))
            else:
                left.append(each)
        return left


def _snapshot(at: Server, queues: list[QueueKeys]) -> list[tuple[QueueKeys, int, list[bytes]]]:
    """Of each queue the server's ms, and ids and scores in turn; all at one moment."""
    pipeline = at.raw.pipeline(transaction=True)
    pipeline.execute_command("TIME")
    for keys in queues:
        pipeline.execute_command("ZRANGE", keys.zset, 0, -1, "WITHSCORES")
    (seconds, microseconds), *all_members = pipeline.execute()
    now = int(seconds) * 1000 + int(microseconds) // 1000
    return [(keys, now, members) for keys, members in zip(queues, all_members, strict=True)]


def _moment(us: int | None) -> datetime | None:
    return None if us is None else _EPOCH + timedelta(microseconds=us)
