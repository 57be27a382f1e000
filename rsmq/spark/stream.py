"""
The streaming source: at least once; exactly once into sinks that know their batches.

A batch is received, and kept as a lease, when Spark asks for the latest offset; the offset names
lease and batch. It is acknowledged when Spark asks again with that batch as the start, which means
that it stands in the commit log: Spark's own ``commit`` comes later, and never for the last batch.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from rsmq.errors import BatchLost
from rsmq.operations.spark.in_flight_batches import Batch, leased_messages
from rsmq.spark.connections import server
from rsmq.spark.in_flight_batches import Lease
from rsmq.spark.options import SourceOptions, StreamOptions
from rsmq.spark.schema import arrow_schema, record_batch

#: How long a look at the backlog is good while nothing happens, seconds.
_BACKLOG = 2.0


class StreamPartition(InputPartition):
    """Some parts of a batch of one queue."""

    def __init__(self, queue: str, batch: Batch, parts: range) -> None:
        super().__init__(None)
        self.queue = queue
        self.batch = batch
        self.parts = parts


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """
    Reads queues as a stream; the methods are Spark's, in the order in which it calls them.

    One instance lives on the driver and has the lease; copies of another read on the executors.
    """

    def __init__(self, source: SourceOptions, options: StreamOptions, schema: StructType) -> None:
        self._source = source
        self._options = options
        self._schema = schema
        self._forget()

    def _forget(self) -> None:
        self._lease: Lease | None = None
        self._name: str | None = None
        self._latest_ms: int | None = None
        self._backlog: dict[str, Any] | None = None
        self._backlog_at = float("-inf")

    def __getstate__(self) -> tuple[Any, ...]:
        return self._source, self._options, self._schema

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._source, self._options, self._schema = state
        self._forget()

    def _leased(self, name: str) -> Lease:
        if self._lease is None or self._lease.name != name:
            at = server(self._source.connection)
            if self._options.dead_letters is not None:
                at.require(self._options.dead_letters.queue)
            if self._lease is not None:
                self._lease.stop()
            self._lease = Lease(at, name, self._source, self._options)
        return self._lease

    def initialOffset(self) -> dict[str, Any]:
        """Where a query begins that has no checkpoint: behind what its group has acknowledged."""
        group = self._options.group
        number, queues = (0, {}) if group is None else self._leased(group).begin()
        self._name = self._name or group or secrets.token_hex(8)  # Spark asks until there is data
        return {"lease": self._name, "batch": number, "queues": queues}

    def getDefaultReadLimit(self) -> ReadLimit:
        """As many messages a batch as the option says."""
        return ReadMaxRows(self._options.most)

    def prepareForTriggerAvailableNow(self) -> None:
        """What becomes visible from now on is left to the next run."""
        self._latest_ms = server(self._source.connection).now_ms()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Acknowledge the batch before, and receive the next; ``start`` if there is none."""
        lease = self._leased(start["lease"])
        lease.acknowledge(start["batch"], start["queues"])
        number = start["batch"] + 1
        most, latest_ms = None, self._latest_ms
        if isinstance(limit, ReadMaxRows):
            most = limit.max_rows
        elif latest_ms is None:
            latest_ms = server(self._source.connection).now_ms()
        found = lease.receive(number, most, latest_ms)
        if not found and latest_ms is None:
            found = lease.wait(number, most)
        if not found:
            return start
        self._backlog = None
        return {"lease": lease.name, "batch": number, "queues": found}

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """For the query's progress: the backlog, and what became of the messages so far."""
        if self._lease is None:
            return None
        if self._backlog is None or time.monotonic() - self._backlog_at > _BACKLOG:
            self._backlog = self._lease.backlog()
            self._backlog_at = time.monotonic()
        tally = self._lease.tally
        return {
            "backlog": self._backlog,
            "acknowledged": tally.acknowledged,
            "lost": tally.lost,
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """What each task reads of a batch; the same after a restart."""
        if start == end:
            return []
        lease = self._leased(end["lease"])
        sizes = lease.planned(end["batch"], end["queues"])
        total = sum(map(sum, sizes.values()))
        most = min(self._source.ids_a_partition, -(-total // self._source.partitions))
        batch = Batch(lease.name, end["batch"])
        return [
            StreamPartition(queue, batch, parts)
            for queue, of_queue in sizes.items()
            for parts in divided(of_queue, max(1, most))
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Record batches of what is still held; the same each time as long as it is."""
        if not isinstance(partition, StreamPartition):  # Spark's stand-in for no partition
            return
        at = server(self._source.connection)
        keys = at.namespace.queue(partition.queue)
        schema = arrow_schema(self._schema)
        for part in partition.parts:
            messages = at.rsmq.run(leased_messages(keys, partition.batch, part))
            if messages is None:
                if self._options.fail_on_data_loss:
                    raise BatchLost(
                        f"Part {part} of batch {partition.batch} of queue {keys.name} is not in "
                        "Redis any more",
                        hint="With failOnDataLoss=false the query goes on without it.",
                    )
                continue
            if messages.ids:
                columns: dict[str, Any] = {
                    "id": messages.ids,
                    "raw": messages.raws,
                    "receive_count": messages.receive_counts,
                    "first_received": messages.first_received_ms,
                }
                yield record_batch(schema, keys.name, columns)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: Spark asks for the next offset first, and that is when it is acknowledged."""

    def stop(self) -> None:
        """End the heartbeat. Nothing is released: Spark calls this after a crash, too."""
        if self._lease is not None:
            self._lease.stop()


def divided(sizes: list[int], most: int) -> Iterator[range]:
    """Parts in a row that have about ``most`` messages together, all of them in turn."""
    begin, size = 0, 0
    for part, of_part in enumerate(sizes):
        if part > begin and size + of_part > most:
            yield range(begin, part)
            begin, size = part, 0
        size += of_part
    if begin < len(sizes):
        yield range(begin, len(sizes))
