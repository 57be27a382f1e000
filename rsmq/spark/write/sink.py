"""
The sinks of batch writes and streams: at least once in one step, or exactly once in two.

For exactly once, each attempt of a task stages its rows beside the queues, in parts with names of
its own. The driver's commit stores the decision which attempts count, in one atomic step, and then
publishes their parts one by one. If a crash interrupts that, the next commit of the same batch, or
of the same ``writeId``, completes it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StringType, StructType

from rsmq.errors import QueueNotFound
from rsmq.errors.guarded_log import get_logger
from rsmq.spark.connections import get_server, require_queues
from rsmq.spark.operations.staged_writes import Decision, finish_write
from rsmq.spark.option_reader import make_new_table_refused
from rsmq.spark.versions import DataSourceStreamArrowWriter
from rsmq.spark.write.frame_rows import check_columns
from rsmq.spark.write.sink_options import SinkOptions
from rsmq.spark.write.task_writer import CREATE_HINT, TaskCommitMessage, TaskWriter, create_queue
from rsmq.spark.write.write_decision import (
    delete_parts,
    delete_unused_parts,
    is_written,
    make_checkpoint_set_back,
    publish,
    read_last_batch,
)

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


def _merge_parts(messages: list[WriterCommitMessage | None]) -> Decision:
    decision: Decision = {}
    for message in messages:
        if isinstance(message, TaskCommitMessage):
            for queue, parts in message.parts.items():
                decision.setdefault(queue, []).extend(parts)
    return decision


def _abort(
    options: SinkOptions,
    messages: list[WriterCommitMessage | None],
    write: str,
    batch: int,
    *,
    is_shared: bool = True,
) -> None:
    """
    Delete staged parts, unless the batch is decided: the next attempt completes that one.

    Another driver may write under the same name, and decide at any moment. So only the parts that
    the messages name are deleted then; the next commit of the batch deletes those of failed tasks.

    Args:
        messages: the results of the tasks.
        is_shared: whether another driver may know the name of the write.
    """
    if not options.is_staged:
        return
    server = get_server(options.connection)
    own_parts = _merge_parts(messages)
    names = {*own_parts, *([options.queue] if options.queue is not None else [])}
    if read_last_batch(server, write) == (batch, True):
        return
    for name in names:
        keys = server.namespace.queue(name)
        if is_shared:
            delete_parts(server, keys, own_parts.get(name, ()))
        else:
            delete_unused_parts(server, keys, write, batch)


class BatchWriter(DataSourceArrowWriter):
    """A writer of a frame; its methods are Spark's."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._is_text = _has_text_bodies(options, schema)
        self._write = options.write_id or secrets.token_hex(16)

    def write(self, iterator: Iterator[Any]) -> TaskCommitMessage:
        """
        Send or stage the rows of a task; nothing if the ``writeId`` was done before.

        Spark calls this in the task.

        Raises:
            InvalidOption: the write is that of a new table.
        """
        _refuse_new_table()
        options, is_named = self._options, self._options.write_id is not None
        if is_named and is_written(get_server(options.connection), self._write, 0):
            return TaskCommitMessage(self._write, 0, {}, 0)
        return TaskWriter(options, self._write, 0, is_text=self._is_text).write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """
        Publish the staged rows; warn if the ``writeId`` was done before.

        Spark calls this on the driver, after all tasks.
        """
        if self._options.is_staged:
            is_named = self._options.write_id is not None
            server = get_server(self._options.connection)
            if is_named and is_written(server, self._write, 0):
                log.warning("The write %s was done before: no row is sent now.", self._write)
            publish(self._options, self._write, 0, _merge_parts(messages), is_named=is_named)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """
        Delete the staged rows. Messages that were already sent are not removed.

        Spark calls this on the driver, after a failure.
        """
        is_shared = self._options.write_id is not None
        _abort(self._options, messages, self._write, 0, is_shared=is_shared)


class StreamWriter(DataSourceStreamArrowWriter):
    """A writer of the batches of a stream; its methods are Spark's."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._is_text = _has_text_bodies(options, schema)

    def write(self, iterator: Iterator[Any]) -> TaskCommitMessage:
        """
        Send or stage the rows of a task; nothing if the batch was done before a crash.

        Spark calls this in the task.
        """
        query, batch = read_query_and_batch()
        if is_written(get_server(self._options.connection), query, batch):
            return TaskCommitMessage(query, batch, {}, 0)
        return TaskWriter(self._options, query, batch, is_text=self._is_text).write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """
        Publish the staged rows, or store that the batch was sent.

        Spark calls this on the driver, after all tasks, and on another object than ``write``.

        Raises:
            BatchLost: a staged part is not in Redis any more.
            CheckpointSetBack: a later batch was written.
        """
        query = _find_query(messages)
        if query is None:
            return
        if self._options.is_staged:
            publish(self._options, query, batchId, _merge_parts(messages))
        else:
            server = get_server(self._options.connection)
            lifetime = self._options.staging_retention
            operation = finish_write(server.namespace, query, batchId, lifetime=lifetime)
            last = server.rsmq.run(operation)
            if last > batchId:
                raise make_checkpoint_set_back(query, batchId, last)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """
        Delete the staged rows. Messages that were already sent are not removed.

        Spark calls this on the driver, after a failure.
        """
        query = _find_query(messages)
        if query is not None:
            _abort(self._options, messages, query, batchId)


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


def _find_query(messages: list[WriterCommitMessage | None]) -> str | None:
    """Return the id of the query; None if no task has written."""
    return next((each.write for each in messages if isinstance(each, TaskCommitMessage)), None)


def _has_text_bodies(options: SinkOptions, schema: StructType) -> bool:
    if options.message_format != "column":
        return options.message_format == "json"
    return isinstance(schema[options.message_column].dataType, StringType)
