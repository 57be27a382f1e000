"""
The sinks of batch writes and streams: at least once in one step, or exactly once in two.

For exactly once, each attempt of a task stages its rows beside the queues, in parts with names of
its own. The driver's commit stores the decision which attempts count, in one atomic step, and then
publishes their parts one by one. If a crash interrupts that, the next commit of the same batch, or
of the same ``writeId``, completes it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import msgpack
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StringType, StructType

from rsmq.errors import BatchLost, CheckpointSetBack, QueueNotFound
from rsmq.errors.guarded_log import get_logger
from rsmq.spark.connection_options import make_new_table_refused
from rsmq.spark.connections import SparkServer, get_server, require_queues
from rsmq.spark.operations.staged_writes import Decision, decide_write, finish_write, publish_staged
from rsmq.spark.versions import DataSourceStreamArrowWriter
from rsmq.spark.write.sink_options import SinkOptions
from rsmq.spark.write.task_writer import (
    CREATE_HINT,
    TaskCommitMessage,
    TaskWriter,
    check_columns,
    create_queue,
)
from rsmq.wire.keys import QueueKeys

#: The results of tasks; Spark has None for one that has none.
_Messages = list[WriterCommitMessage | None]

#: How long it is stored that a write without a ``writeId`` is done: no later write asks for it.
_UNNAMED_WRITE_RETENTION_SECONDS = 3600.0


def is_written(server: SparkServer, write: str, batch: int) -> bool:
    """
    Return whether a batch of a write is done already: then Spark repeats it after a crash.

    Raises:
        CheckpointSetBack: a later batch was done or decided, so Spark repeats an older batch than
            the last one.
    """
    last, is_unfinished = read_last_batch(server, write)
    if last > batch:
        raise make_checkpoint_set_back(write, batch, last)
    return last == batch and not is_unfinished


def make_checkpoint_set_back(write: str, batch: int, last: int) -> CheckpointSetBack:
    """Return the error of a write whose batch is older than the last one that was written."""
    return CheckpointSetBack(f"query {write}", batch, last, "written", "")


def read_last_batch(server: SparkServer, write: str) -> tuple[int, bool]:
    """
    Return the last batch of a write that was done or decided, and whether it is not done yet.

    The number is -1 if none is stored.
    """
    packed = server.call("HGET", server.namespace.written, write)
    if packed is None:
        return -1, False
    batch, decision, _ = msgpack.unpackb(packed, raw=True)
    return batch, bool(decision)


def publish(
    options: SinkOptions, write: str, batch: int, decision: Decision, *, is_named: bool = True
) -> None:
    """
    Publish the staged parts of a batch, once; complete an interrupted decision first.

    Args:
        decision: the parts to publish, unless a decision of this batch is stored already.
        is_named: whether the write may be repeated under its name. Else it is stored for an hour
            at most that it is done.

    Raises:
        BatchLost: a part is not in Redis any more.
        CheckpointSetBack: a later batch was published.
    """
    server = get_server(options.connection)
    names = set(decision)
    retention = options.staging_retention
    lifetime = retention if is_named else min(retention, _UNNAMED_WRITE_RETENTION_SECONDS)
    while True:
        decided = server.rsmq.run(
            decide_write(server.namespace, write, batch, decision, lifetime=retention)
        )
        if decided is None:
            raise _make_batch_lost(write, batch, "Nothing of it was published: run the write again")
        number, parts_by_name = decided
        if parts_by_name is None:
            break
        names.update(parts_by_name)
        for name, parts in parts_by_name.items():
            keys = server.namespace.queue(name)
            for part in parts:
                operation = publish_staged(keys, part, realtime=options.realtime)
                if server.rsmq.run(operation) is None:
                    raise _make_batch_lost(write, number, "Some of it was published")
        server.rsmq.run(finish_write(server.namespace, write, number, lifetime=lifetime))
        if number >= batch:
            break
    if number > batch:
        raise make_checkpoint_set_back(write, batch, number)
    for name in names:
        delete_unused_parts(server, server.namespace.queue(name), write, batch)


def _make_batch_lost(write: str, batch: int, remedy: str) -> BatchLost:
    return BatchLost(
        f"Not all that was staged for batch {batch} of write {write} is in Redis: a queue was "
        "purged or deleted, Redis lost data, or stagingRetention is over",
        value=write,
        hint=f"{remedy}.",
    )


def delete_unused_parts(server: SparkServer, keys: QueueKeys, write: str, batch: int) -> None:
    """Delete the staged parts of a write up to a batch, and the expired parts of all writes."""
    now_ms = server.now_ms()
    unused = []
    for name in server.call("HKEYS", keys.staged):
        part_write, part_batch, attempt, _ = name.decode().split(":")
        is_own = part_write == write and int(part_batch) <= batch
        if is_own or int(attempt.partition("-")[0]) < now_ms:
            unused.append(name)
    delete_parts(server, keys, unused)


def delete_parts(
    server: SparkServer, keys: QueueKeys, parts: Sequence[str] | Sequence[bytes]
) -> None:
    """Delete staged parts of a queue by their names."""
    for begin in range(0, len(parts), 1000):
        server.call("HDEL", keys.staged, *parts[begin : begin + 1000])


log = get_logger(__name__)


def prepare_write(options: SinkOptions, schema: StructType) -> None:
    """
    Check the columns and the queue of a write, and create the queue if the options say so.

    Raises:
        InvalidOption: the columns do not fit the options.
        QueueNotFound: the queue does not exist, and ``createQueue`` is false.
    """
    check_columns(schema, options)
    if options.queue is not None:
        try:
            require_queues(options.connection, [options.queue])
        except QueueNotFound as error:
            if not options.create_queue:
                error.hint = CREATE_HINT
                raise
            create_queue(options, options.queue)


def _merge_parts(messages: _Messages) -> Decision:
    decision: Decision = {}
    for message in messages:
        if isinstance(message, TaskCommitMessage):
            for queue, parts in message.parts.items():
                decision.setdefault(queue, []).extend(parts)
    return decision


class _Writer:
    """
    The writes of tasks, and what the two kinds of writers do with their results.

    Spark calls ``write`` in the task; ``commit``, after all tasks, and ``abort``, after a failure,
    on the driver, on another object.
    """

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._is_text = _has_text_bodies(options, schema)
        self._write = options.write_id or secrets.token_hex(16)  # that of a stream is its query

    def _write_task(
        self, iterator: Iterator[Any], write: str, batch: int, *, is_named: bool
    ) -> TaskCommitMessage:
        """Send or stage the rows of a task; nothing if the write of this name was done before."""
        options = self._options
        if is_named and is_written(get_server(options.connection), write, batch):
            return TaskCommitMessage(write, batch, {}, 0)
        return TaskWriter(options, write, batch, is_text=self._is_text).write(iterator)

    def _abort(
        self, messages: _Messages, write: str, batch: int, *, is_shared: bool = True
    ) -> None:
        """
        Delete staged parts, unless the batch is decided: the next attempt completes that one.

        Another driver may write under the same name, and decide at any moment. So only the parts
        that the messages name are deleted then; the next commit of the batch deletes those of
        failed tasks.

        Args:
            messages: the results of the tasks.
            is_shared: whether another driver may know the name of the write.
        """
        options = self._options
        if not options.is_staged:
            return
        server = get_server(options.connection)
        own_parts = _merge_parts(messages)
        if read_last_batch(server, write) == (batch, True):
            return
        for name in {*own_parts, options.queue} - {None}:
            keys = server.namespace.queue(name or "")
            if is_shared:
                delete_parts(server, keys, own_parts.get(keys.name, ()))
            else:
                delete_unused_parts(server, keys, write, batch)


class BatchWriter(_Writer, DataSourceArrowWriter):
    """A writer of a frame; its methods are Spark's."""

    @property
    def _is_named(self) -> bool:
        return self._options.write_id is not None

    def write(self, iterator: Iterator[Any]) -> TaskCommitMessage:
        """
        Send or stage the rows of a task; nothing if the ``writeId`` was done before.

        Raises:
            InvalidOption: the write is that of a new table.
        """
        _refuse_new_table()
        return self._write_task(iterator, self._write, 0, is_named=self._is_named)

    def commit(self, messages: _Messages) -> None:
        """Publish the staged rows; warn if the ``writeId`` was done before."""
        if self._options.is_staged:
            server, is_named = get_server(self._options.connection), self._is_named
            if is_named and is_written(server, self._write, 0):
                log.warning("The write %s was done before: no row is sent now.", self._write)
            publish(self._options, self._write, 0, _merge_parts(messages), is_named=is_named)

    def abort(self, messages: _Messages) -> None:
        """Delete the staged rows. Messages that were already sent are not removed."""
        self._abort(messages, self._write, 0, is_shared=self._is_named)


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """A writer of the batches of a stream; its methods are Spark's."""

    def write(self, iterator: Iterator[Any]) -> TaskCommitMessage:
        """Send or stage the rows of a task; nothing if the batch was done before a crash."""
        return self._write_task(iterator, *read_query_and_batch(), is_named=True)

    def commit(self, messages: _Messages, batchId: int) -> None:
        """
        Publish the staged rows, or store that the batch was sent.

        Raises:
            BatchLost: a staged part is not in Redis any more.
            CheckpointSetBack: a later batch was written.
        """
        query = _find_query(messages)
        if query is None:
            return
        if self._options.is_staged:
            publish(self._options, query, batchId, _merge_parts(messages))
            return
        server, lifetime = get_server(self._options.connection), self._options.staging_retention
        last = server.rsmq.run(finish_write(server.namespace, query, batchId, lifetime=lifetime))
        if last > batchId:
            raise make_checkpoint_set_back(query, batchId, last)

    def abort(self, messages: _Messages, batchId: int) -> None:
        """Delete the staged rows. Messages that were already sent are not removed."""
        query = _find_query(messages)
        if query is not None:
            self._abort(messages, query, batchId)


def _refuse_new_table() -> None:
    """
    Refuse the write of ``saveAsTable`` and ``writeTo(...).create()``, which then leave no table.

    Spark does not pass the options of a table to a data source in Python: it could not be read.
    Such a write is part of the execution of another command. That of ``foreachBatch`` is, too.

    Raises:
        InvalidOption: the present task is that of such a write.
    """
    context: Any = TaskContext.get()
    if context is None:
        return
    ids = map(context.getLocalProperty, ("spark.sql.execution.id", "spark.sql.execution.root.id"))
    if len(set(ids)) > 1 and context.getLocalProperty("sql.streaming.queryId") is None:
        raise make_new_table_refused()


def read_query_and_batch() -> tuple[str, int]:
    """Return the id of the query and the number of the batch of the present task."""
    context: Any = TaskContext.get()
    return (
        context.getLocalProperty("sql.streaming.queryId"),
        int(context.getLocalProperty("streaming.sql.batchId")),
    )


def _find_query(messages: _Messages) -> str | None:
    """Return the id of the query; None if no task has written."""
    return next((each.write for each in messages if isinstance(each, TaskCommitMessage)), None)


def _has_text_bodies(options: SinkOptions, schema: StructType) -> bool:
    if options.message_format != "column":
        return options.message_format == "json"
    return isinstance(schema[options.message_column].dataType, StringType)
