"""
Data sources without Redis, in Python: the time that Spark itself needs for a read, a write and a
stream.

A source yields the record batches that ``format("rsmq")`` yields for messages that were never
received. They are built once in each task.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from rsmq.spark.connections import spare_loaded_modules
from rsmq.spark.read.record_batch import build_arrow_schema, build_record_batch
from rsmq.spark.read.schema import DEFAULT_COLUMNS, make_fields
from rsmq.wire.ids import make_id_suffixes
from rsmq.wire.keys import Namespace

PARTITIONS = 4
#: The messages of a record batch: as many as a read and a stream from Redis have in one by default.
READ_ROWS = 2000
STREAM_ROWS = 1000

_MICROSECONDS = 1_000_000
_ID_TIME = b"dxbk6gz0q8"  # the first part of an id: its time


class Messages(InputPartition):
    """
    Some messages.

    Attributes:
        number: the number of messages.
        due_us: the times when they are due, as their bodies; empty for bodies of 200 bytes.
    """

    def __init__(self, number: int, due_us: tuple[int, ...] = ()) -> None:
        super().__init__(None)
        self.number = number
        self.due_us = due_us


class MemorySource(DataSource):
    """
    A source and a sink without Redis.

    The options are ``messages``, the number of messages; ``maxMessagesPerTrigger``, that of a
    batch; and ``rate``, the messages of a stream that become available per second; 0 is all at
    once.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "bench_memory"

    def schema(self) -> StructType:
        """Return the columns of ``format("rsmq")``."""
        fields = make_fields(is_binary=False)
        return StructType([fields[name] for name in DEFAULT_COLUMNS])

    def reader(self, schema: StructType) -> MemoryReader:
        """Return a reader."""
        return MemoryReader(int(self.options["messages"]), schema)

    def streamReader(self, schema: StructType) -> MemoryStreamReader:  # noqa: N802 - Spark's name
        """Return a reader of a stream."""
        options = self.options
        return MemoryStreamReader(
            int(options.get("messages", 0)),
            int(options.get("maxMessagesPerTrigger", 100_000)),
            int(options.get("rate", 0)),
            schema,
        )

    def writer(self, schema: StructType, overwrite: bool) -> CountingWriter:  # noqa: ARG002, FBT001
        """Return a writer."""
        return CountingWriter()


class MemoryReader(DataSourceReader):
    """A reader of messages in memory."""

    def __init__(self, messages: int, schema: StructType) -> None:
        self._messages = messages
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """Return partitions of the same size."""
        return _divide(self._messages)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield record batches."""
        spare_loaded_modules()  # as the sources with Redis do
        return _make_batches(self._schema, partition, READ_ROWS)


class MemoryStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader of a stream of messages in memory; the offset is the number of messages."""

    def __init__(self, messages: int, batch: int, rate: int, schema: StructType) -> None:
        self._messages = messages
        self._batch = batch
        self._rate = rate
        self._schema = schema

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the begin of the stream: its time in Unix microseconds, and no messages."""
        begin_us = time.time_ns() // 1000 if self._rate else 0
        return {"begin_us": begin_us, "end": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the size of a batch."""
        return ReadMaxRows(self._batch)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Do nothing: the number of messages is an option."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next batch."""
        end = self._messages
        if self._rate:
            now_us = time.time_ns() // 1000
            end = min(end, (now_us - start["begin_us"]) * self._rate // _MICROSECONDS)
        if isinstance(limit, ReadMaxRows):
            end = min(end, start["end"] + limit.max_rows)
        return {"begin_us": start["begin_us"], "end": end}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return partitions of the same size; a single one of a stream with a rate."""
        if not self._rate:
            return _divide(end["end"] - start["end"])
        due_us = tuple(
            start["begin_us"] + (number + 1) * _MICROSECONDS // self._rate
            for number in range(start["end"], end["end"])
        )
        return [Messages(len(due_us), due_us)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield record batches."""
        spare_loaded_modules()
        return _make_batches(self._schema, partition, STREAM_ROWS)


@dataclass
class RowCount(WriterCommitMessage):
    """The number of rows of a task."""

    rows: int


class CountingWriter(DataSourceArrowWriter):
    """A writer that counts the rows, and discards them."""

    def write(self, iterator: Iterator[Any]) -> RowCount:
        """Count the rows of a task."""
        spare_loaded_modules()
        return RowCount(sum(batch.num_rows for batch in iterator))


def _divide(messages: int) -> list[InputPartition]:
    share, rest = divmod(messages, PARTITIONS)
    return [Messages(share + (number < rest)) for number in range(PARTITIONS)]


def _make_batches(schema: StructType, partition: InputPartition, rows: int) -> Iterator[Any]:
    if not isinstance(partition, Messages) or not partition.number:
        return
    bodies = [b"%d" % each for each in partition.due_us] or [b"x" * 200] * min(
        rows, partition.number
    )
    size = len(bodies)
    batch = build_record_batch(
        build_arrow_schema(schema),
        Namespace().queue("q"),
        {
            "id": [_ID_TIME + suffix for suffix in make_id_suffixes(size)],
            "raw": bodies,
            "receive_count": [0] * size,
            "visible_at": [1_790_000_000_000.0] * size,
        },
    )
    for begin in range(0, partition.number, size):
        yield batch.slice(0, min(size, partition.number - begin))
