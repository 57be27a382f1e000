"""
The streaming source: at least once, and exactly once into sinks that skip batches they have.

The reader receives a batch when Spark asks for the latest offset; the offset names the stream and
the batch. The reader acknowledges the batch when Spark asks again with that batch as the start:
then the batch is in Spark's commit log. Spark's own ``commit`` is called later than that, and never
for the last batch.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import wraps
from typing import Any, TypeVar, cast

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from rsmq.errors import InvalidOption
from rsmq.spark.connections import get_queue, get_servers, require_queues, spare_loaded_modules
from rsmq.spark.operations.batches import Batch
from rsmq.spark.read.record_batch import build_arrow_schema, build_record_batch
from rsmq.spark.read.sent_columns import read_facts
from rsmq.spark.read.source_options import SourceOptions, StreamOptions
from rsmq.spark.stream.background import SigtermHandler
from rsmq.spark.stream.batches import UNLIMITED, BatchEvent, BatchLimits
from rsmq.spark.stream.consumer import StreamConsumer, make_batch_lost
from rsmq.spark.stream.records import StreamIdentity, check_version, read_leased_parts
from rsmq.spark.stream.stream_queues import Backlog, read_backlog
from rsmq.spark.versions import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

Method = TypeVar("Method", bound=Callable[..., Any])


def _delay_sigterm(method: Method) -> Method:
    """Return a method of the reader that SIGTERM does not interrupt."""

    @wraps(method)
    def call(self: StreamReader, *args: Any) -> Any:
        with self.sigterm.delayed():
            return method(self, *args)

    return cast("Method", call)


@dataclass
class StreamPartition(InputPartition):
    """
    Some parts of a batch, all of one queue.

    Attributes:
        ns: the namespace of the queue.
        queue: the queue's name.
        parts: the numbers of the parts.
    """

    ns: str
    queue: str
    batch: Batch
    parts: range


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """
    A reader of queues as a stream; its methods are Spark's, in the order in which Spark calls them.

    One instance lives on the driver and has the consumer. Executors read with pickled copies, which
    have none.
    """

    def __init__(self, source: SourceOptions, options: StreamOptions, schema: StructType) -> None:
        self.source = source
        self.options = options
        self._schema = schema
        self.consumer: StreamConsumer | None = None
        self.sigterm = SigtermHandler(self.stop)
        self._new_name = secrets.token_hex(8)  # Spark may ask several times for the first offset
        self._is_first_start: bool | None = None  # not known yet
        self._planned: int | None = None
        self._committed: int | None = None
        self._latest_ms: int | None = None
        self._backlog: Backlog | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.source, self.options, self._schema)

    def _get_consumer(self, name: str) -> StreamConsumer:
        if self.consumer is None or self.consumer.name != name:
            if self.options.dead_letters is not None:
                require_queues(self.source.connection, [self.options.dead_letters.queue])
            if self.consumer is not None:
                self.consumer.stop()
            self.sigterm.install()
            stream = StreamIdentity(name, self.source, self.options)
            self.consumer = StreamConsumer(stream, self.sigterm)
            try:
                self.consumer.start(is_new=name == self._new_name)
            except Exception:
                self.consumer.stop()
                self.consumer = None
                raise
        return self.consumer

    @_delay_sigterm
    def initialOffset(self) -> dict[str, Any]:
        """
        Return the offset after which a query without a checkpoint starts.

        With a consumer group, that is the result of ``BatchRecords.find_start``; else batch 0 of a
        new stream.
        """
        if self._is_first_start is None:
            self._is_first_start = True
        group = self.options.consumer_group
        if group is None:
            return StreamIdentity(self._new_name, self.source, self.options).make_offset(0, {})
        consumer = self._get_consumer(group)
        return consumer.stream.make_offset(*consumer.records.find_start(consumer.queues.get()))

    def getDefaultReadLimit(self) -> ReadLimit:
        """
        Return the limit of ``maxMessagesPerTrigger`` messages for each batch.

        Spark's limits can't be combined here: ``latestOffset`` applies the other limits whenever
        Spark passes this one.
        """
        return ReadMaxRows(self.options.max_messages)

    def prepareForTriggerAvailableNow(self) -> None:
        """
        Leave messages that become visible from now on to the next run.

        A message that is held back now, and was due before, is of this run: it becomes visible when
        this stream has deleted those of its group before it.
        """
        self._latest_ms = self._read_time_ms()

    def _read_time_ms(self) -> int:
        """Return the latest time of the servers, Unix milliseconds."""
        return max(server.now_ms() for server in get_servers(self.source.connection))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """
        Acknowledge the batch ``start``, and receive the next one.

        Returns:
            The offset of the next batch; ``start`` itself if there are no messages, or not enough
            of them yet.

        Raises:
            NewerVersion: a newer version of this library has written the checkpoint.
            QueueNotFound: a queue that the options name does not exist, and the query starts for
                the first time or ``failOnDataLoss`` is true.
        """
        try:
            return self._find_latest_offset(start, limit)
        except SystemExit:
            if self.consumer is not None:
                self.consumer.batches.change(start["batch"] + 1, BatchEvent.WITHDRAW)
            raise

    @_delay_sigterm
    def _find_latest_offset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        check_version(start)
        if self._is_first_start and not self.options.fail_on_data_loss:
            require_queues(self.source.connection, self.source.queues)
        self._is_first_start = False
        consumer = self._get_consumer(start["lease"])
        consumer.parts.latest_ms = self._latest_ms
        number = start["batch"] + 1
        consumer.commit(start["batch"], consumer.stream.find_counts(start))
        if isinstance(limit, ReadMaxRows):
            size = self.options.max_bytes or UNLIMITED
            limits = BatchLimits(limit.max_rows, size, self._latest_ms)
        else:  # the batch must end somewhere even if producers continue to send
            limits = BatchLimits(latest_ms=self._latest_ms or self._read_time_ms())
        receive = consumer.receive_if_any if limits.latest_ms is None else consumer.receive
        received = receive(number, limits)
        if not received:
            return start
        self._backlog = None
        return consumer.stream.make_offset(number, received)

    @_delay_sigterm
    def reportLatestOffset(self) -> dict[str, Any] | None:
        """
        Return the backlog and the counts of messages, for the progress of the query.

        Spark shows it as ``latestOffset`` of the source. A source in Python can't report metrics.
        """
        if self.consumer is None:
            return None
        if self._backlog is None or time.monotonic() > self._backlog.recent_until:
            self._backlog = read_backlog(self.consumer.queues.get())
        described = {"description": self.consumer.stream.description}
        return {**described, **self._backlog.describe(), **asdict(self.consumer.parts.tally)}

    @_delay_sigterm
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """
        Return a partition for each task that reads the batch ``end``.

        A restarted query gets the same messages.

        Raises:
            BatchLost: a part is not in Redis any more, and ``failOnDataLoss`` is true.
            CheckpointSetBack: the batch was acknowledged, so nothing is left of it.
            NewerVersion: a newer version of this library has written the checkpoint.
            InvalidOption: the query has the option ``asyncProgressTrackingEnabled``, or the batch
                has messages of a namespace that ``ns`` does not name.
        """
        self._is_first_start = False  # Spark has logged a batch
        if start == end:
            return []
        check_version(end)
        if end["batch"] > start["batch"]:  # else the batch of a query that began without messages
            self._refuse_async_progress(start["batch"])
            self._planned = end["batch"]
        consumer = self._get_consumer(end["lease"])
        part_sizes = consumer.plan(end["batch"], consumer.stream.find_counts(end))
        total = sum(map(sum, part_sizes.values()))
        share = max(1, -(-total // self.source.num_partitions))
        batch = consumer.stream.name_batch(end["batch"])
        # Spark has logged ``end``, so it has committed ``start``.
        consumer.work_ahead(start["batch"], consumer.stream.find_counts(start), end["batch"] + 1)
        return [
            StreamPartition(queue.server.namespace.name, queue.keys.name, batch, parts)
            for queue, sizes in part_sizes.items()
            for parts in group_parts(sizes, share, self.source.max_ids_per_partition)
        ]

    def _refuse_async_progress(self, start: int) -> None:
        """
        Refuse a query whose progress Spark logs later than it requests the next batch.

        Such a query does not commit a batch before it plans the next one. Its batches would be
        acknowledged before they are in Spark's commit log. The option itself is that of a sink.
        """
        if self._planned == start and self._committed != start:
            raise InvalidOption(
                "asyncProgressTrackingEnabled",
                "does not go with a stream from rsmq: its messages would be deleted before Spark "
                "has logged their batch. Remove the option from the query.",
            )

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """
        Yield record batches of the messages whose receipts are still valid.

        A repeated call yields the same messages, as long as their receipts stay valid.

        Raises:
            BatchLost: a part is not in Redis any more, and ``failOnDataLoss`` is true.
        """
        # Spark calls this with a partition of its own if the reader returned none.
        if not isinstance(partition, StreamPartition):
            return
        spare_loaded_modules()
        queue = get_queue(self.source.connection, partition.ns, partition.queue)
        schema = build_arrow_schema(self._schema)
        for part, columns in read_leased_parts(queue, partition.batch, partition.parts):
            if columns is None and self.options.fail_on_data_loss:
                raise make_batch_lost(
                    f"Part {part} of batch {partition.batch} of queue {queue.label} is no longer "
                    "in Redis",
                    queue.label,
                )
            if columns is not None and columns["id"]:
                names = self._schema.fieldNames()
                read = read_facts(queue.server, queue.keys, columns, names)
                bodies = self.source.connection.bodies
                yield build_record_batch(schema, queue.keys, read, bodies, consumes=True)

    def commit(self, end: dict[str, Any]) -> None:
        """Note the batch. ``latestOffset`` is called earlier, and acknowledges it."""
        self._committed = end["batch"]

    def stop(self) -> None:
        """
        Stop the heartbeat, and release the name of the stream.

        Release also a batch that this process has received, wholly or in part, before Spark got its
        offset: one that was received ahead, or whose receive failed. Release no other message:
        Spark calls this after a crash, too.
        """
        with self.sigterm.ignored():
            if self.consumer is not None:
                self.consumer.stop()


def group_parts(sizes: list[int], share: int, max_messages: int) -> Iterator[range]:
    """
    Yield ranges of consecutive parts: of those that begin within one share of the messages.

    Args:
        sizes: the number of messages of each part.
        max_messages: the most messages of a range, unless it is one larger part.
    """
    begin, size, before = 0, 0, 0
    for part, part_size in enumerate(sizes):
        is_next_share = before // share > (before - size) // share
        if part > begin and (is_next_share or size + part_size > max_messages):
            yield range(begin, part)
            begin, size = part, 0
        size, before = size + part_size, before + part_size
    if begin < len(sizes):
        yield range(begin, len(sizes))
