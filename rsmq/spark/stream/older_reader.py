"""
The streaming source on PySpark 4.0 and 4.1, which do not pass it the offset of the last batch.

A new process of the query first learns from Redis which batch was received last. That needs a
stream of a known name, a consumer group. Whether Spark has logged this batch, only Spark knows, so
it gets the offset of this batch. If Spark has logged the batch, the offset is not new, and Spark
requests another one: the batch is done, because a logged batch that is not done is planned first.
Otherwise Spark plans the batch.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.datasource import InputPartition

from rsmq.errors import BatchLost, InvalidOption, NotPossible, show
from rsmq.spark.connections import require_queues
from rsmq.spark.stream.reader import StreamReader
from rsmq.spark.stream.records import check_version
from rsmq.wire.refusals import make_batch_acknowledged


class OlderStreamReader(StreamReader):
    """A reader of queues as a stream with a consumer group; its methods are Spark's."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._done: dict[str, Any] | None = None  # the offset of the last batch, once it is done
        self._last: dict[str, Any] | None = None  # that of the batch which Redis had last

    def initialOffset(self) -> dict[str, Any]:
        """
        Return the offset after which a query without a checkpoint starts.

        Spark calls this after ``latestOffset``, which does not know whether a checkpoint is new.

        Raises:
            QueueNotFound: a queue that the options name does not exist.
        """
        if not self.options.fail_on_data_loss:  # else the consumer requires the queues
            require_queues(self.source.connection, self.source.queues)
        self._done = super().initialOffset()
        return self._done

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        """
        Acknowledge the last batch, which is done, and receive the next one.

        The first call of a process returns the batch that was received last, if it is in flight.

        Returns:
            The offset of the next batch; that of the last one if there are no messages.

        Raises:
            QueueNotFound: a queue that the options name does not exist.
        """
        if self._done is None:
            self._done, self._last = self._last, None
        if self._done is None:
            assert self.options.consumer_group is not None  # noqa: S101 - the source has checked it
            consumer = self._get_consumer(self.options.consumer_group)
            number, counts, is_done = consumer.records.find_last(consumer.queues.get())
            found = consumer.stream.make_offset(number, counts)
            if not is_done:
                self._last = found
                return found
            self._done = found
        return super().latestOffset(self._done, self.getDefaultReadLimit())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """
        Return a partition for each task that reads the batch ``end``.

        Raises:
            BatchLost: as ``StreamReader.partitions``; or Redis does not know the batch ``start``.
            CheckpointSetBack: the batch after ``start`` was acknowledged.
            InvalidOption: the checkpoint is of another consumer group, or its batch has messages of
                a namespace that ``ns`` does not name.
            NewerVersion: a newer version of this library has written the checkpoint.
            NotPossible: the checkpoint lacks a batch that is in flight.
        """
        for offset in (start, end):
            check_version(offset)
        if start["lease"] != end["lease"]:
            raise InvalidOption(
                "consumerGroup",
                f"the checkpoint is of the stream {show(start['lease'])}: pass this name, or start "
                "with a new checkpointLocation.",
                value=end["lease"],
            )
        number = start["batch"] + 1
        if end["batch"] > number:
            consumer = self._get_consumer(end["lease"])
            if consumer.records.is_in_flight(number, consumer.queues.get()):
                raise NotPossible(
                    f"The checkpoint of stream {end['lease']} lacks batch {number}, which is in "
                    f"flight: the query has used another checkpoint, which ends with batch "
                    f"{number} or {end['batch']}",
                    value=number,
                    hint="Continue with that checkpointLocation. Or delete the new one, and pass "
                    "another consumerGroup: it receives these messages after their visibility "
                    f"timeout, also those of batch {number}, which may be in the sink.",
                )
            raise make_batch_acknowledged(end["lease"], number, end["batch"] - 1)
        if end["batch"] < start["batch"]:
            raise BatchLost(
                f"Batch {start['batch']} of stream {start['lease']} is not known in Redis, whose "
                f"last batch is {end['batch']}: Redis has lost data",
                value=start["batch"],
                hint="Start with a new checkpointLocation.",
            )
        # An offset of the batch ``start`` itself has other counts, because part of the batch was
        # deleted meanwhile: its rows are in the sink.
        planned = super().partitions(start, end) if end["batch"] == number else []
        self._done = end  # Spark requests the next offset after that
        return planned
