"""
The sinks of batch writes and streams: at least once in one step, or exactly once in two.

For exactly once, each attempt of a task stages its rows beside the queues, in parts with names of
its own. The driver's commit stores the decision which attempts count, in one atomic step, and then
publishes their parts one by one. If a crash interrupts that, the next commit of the same batch, or
of the same ``writeId``, completes it. The decision of a write in cells is stored in one of them,
its home cell, which depends on the name of the write.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StringType, StructType

from rsmq.errors import CellFailed, QueueNotFound
from rsmq.guarded_log import get_logger
from rsmq.spark.connections import find_placed_queue, get_home, make_label, require_queues
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
            for label, parts in message.parts.items():
                decision.setdefault(label, []).extend(parts)
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
    A cell that can't be reached keeps its parts until they expire, so that Spark reports the error
    because of which the write is aborted.

    Args:
        messages: the results of the tasks.
        is_shared: whether another driver may know the name of the write.
    """
    if not options.is_staged:
        return
    connection = options.connection
    own_parts = _merge_parts(messages)
    labels = set(own_parts)
    if options.queue is not None:
        cells = (None,) if connection.cells is None else range(connection.cells)
        labels.update(make_label(cell, options.queue) for cell in cells)
    try:
        if read_last_batch(get_home(connection, write), write) == (batch, True):
            return
        for label in labels:
            queue = find_placed_queue(connection, label)
            if is_shared:
                delete_parts(queue, own_parts.get(label, ()))
            else:
                delete_unused_parts(queue, write, batch)
    except CellFailed as error:
        log.warning("Staged messages are deleted when they expire: %s", error)


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
        options = self._options
        if options.write_id is not None:
            home = get_home(options.connection, self._write)
            if is_written(home, self._write, 0):
                return TaskCommitMessage(self._write, 0, {}, 0)
        return TaskWriter(options, self._write, 0, is_text=self._is_text).write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """
        Publish the staged rows; warn if the ``writeId`` was done before.

        Spark calls this on the driver, after all tasks.
        """
        if self._options.is_staged:
            is_named = self._options.write_id is not None
            home = get_home(self._options.connection, self._write)
            if is_named and is_written(home, self._write, 0):
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
        if is_written(get_home(self._options.connection, query), query, batch):
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
            home = get_home(self._options.connection, query)
            lifetime = self._options.staging_retention
            operation = finish_write(home.namespace, query, batchId, lifetime=lifetime)
            last = home.run(operation)
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
