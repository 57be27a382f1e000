"""
The sinks of batch writes and streams: at least once in one step, or exactly once in two.

For exactly once, each attempt of a task stages its rows beside the queues, in parts with names of
its own. The driver's commit stores the decision which attempts count, in one atomic step, and then
publishes their parts one by one. If a crash interrupts that, the next commit of the same batch, or
of the same ``writeId``, completes it. The decision of a write in cells is stored in one of them,
its home cell, which depends on the name of the write.
"""

from __future__ import annotations

import itertools
import logging
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgpack
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StringType, StructType

from rsmq.errors import BatchLost, CellFailed, CheckpointSetBack, QueueNotFound
from rsmq.operations.arguments import digits
from rsmq.operations.restore import restore_messages
from rsmq.operations.sending import send_raws
from rsmq.operations.spark.staged_writes import (
    Decision,
    check_staged,
    decide_write,
    finish_write,
    publish_staged,
    stage_messages,
)
from rsmq.spark.connections import (
    PlacedQueue,
    Server,
    find_placed_queue,
    get_home,
    get_server,
    get_servers,
    make_label,
)
from rsmq.spark.frame_rows import Destination, build_messages, check_columns, measure_largest
from rsmq.spark.sink_options import SinkOptions
from rsmq.spark.task_process import spare_loaded_modules

log = logging.getLogger(__name__)

#: The most bytes of bodies in a call; a single message may be larger.
_MAX_CALL_BYTES = 4 * 1024 * 1024

#: The most bytes of bodies that a task buffers, for all destinations together.
_MAX_BUFFERED_BYTES = 64 * 1024 * 1024

#: How long it is stored that a write without a ``writeId`` is done: no later write asks for it.
_UNNAMED_WRITE_RETENTION_SECONDS = 3600.0


@dataclass
class TaskCommitMessage(WriterCommitMessage):
    """
    The result of a task, which Spark passes to the driver's commit.

    Attributes:
        write: the name of the write.
        batch: the number of the batch; 0 for a batch write.
        parts: the names of the staged parts, by the label of the queue.
        rows: how many rows the task sent or staged.
    """

    write: str
    batch: int
    parts: Decision
    rows: int


@dataclass(slots=True)
class _Buffer:
    """The messages of one destination that are not written yet."""

    messages: list[Any] = field(default_factory=list)
    size: int = 0


class _TaskWriter:
    """One attempt of one task."""

    def __init__(self, options: SinkOptions, write: str, batch: int, *, is_text: bool) -> None:
        self._options = options
        # Calls of messages for any cell go to the cells in turn.
        number = options.connection.cells or 1
        self._cells = itertools.count(secrets.randbelow(number))
        self._number = number
        self._is_text = is_text
        self._created: set[str] = set()
        self._parts: Decision = {}
        self._prefix = f"{write}:{batch}"
        # The name of a part contains the Unix time in ms after which the part may be deleted.
        expires_ms = 0
        if options.is_staged:
            home = get_home(options.connection, write)
            with home.naming_cell():
                expires_ms = home.now_ms() + round(options.staging_retention * 1000)
        self._attempt = f"{expires_ms}-{secrets.token_hex(6)}"
        self._result = TaskCommitMessage(write, batch, self._parts, 0)

    def write(self, batches: Iterator[Any]) -> TaskCommitMessage:
        spare_loaded_modules()
        buffers: dict[Destination, _Buffer] = {}
        for batch in batches:
            for destination, messages in build_messages(self._options, batch):
                buffer = buffers.get(destination)
                if buffer is None:
                    buffer = buffers[destination] = _Buffer()
                self._add(destination, buffer, messages)
            if sum(buffer.size for buffer in buffers.values()) > _MAX_BUFFERED_BYTES:
                self._flush_all(buffers)
            self._result.rows += batch.num_rows
        self._flush_all(buffers)
        return self._result

    def _add(self, destination: Destination, buffer: _Buffer, messages: list[Any]) -> None:
        """Add messages of one destination to its buffer, and write the buffer when it is full."""
        begin = 0
        while begin < len(messages):
            part = messages[begin : begin + self._options.batch_size - len(buffer.messages)]
            sizes = [len(each if isinstance(each, bytes) else each.raw) for each in part]
            is_full = buffer.size + sum(sizes) > _MAX_CALL_BYTES
            if is_full:
                totals = itertools.accumulate(sizes, initial=buffer.size)
                next(totals)
                fitting = sum(total <= _MAX_CALL_BYTES for total in totals)
                # A single message may be larger than a call.
                fitting = fitting if fitting or buffer.messages else 1
                part, sizes = part[:fitting], sizes[:fitting]
            buffer.messages += part
            buffer.size += sum(sizes)
            begin += len(part)
            if is_full or len(buffer.messages) >= self._options.batch_size:
                self._flush(destination, buffer)

    def _flush_all(self, buffers: dict[Destination, _Buffer]) -> None:
        for destination, buffer in buffers.items():
            if buffer.messages:
                self._flush(destination, buffer)

    def _flush(self, destination: Destination, buffer: _Buffer) -> None:
        messages, buffer.messages, buffer.size = buffer.messages, [], 0
        options = self._options
        if options.create_queue and destination.queue not in self._created:
            create_queue(options, destination.queue)
            self._created.add(destination.queue)
        cell = destination.cell
        if cell is None:
            cell = next(self._cells) % self._number
        server = get_server(options.connection, cell)
        keys = server.namespace.queue(destination.queue)
        with server.naming_cell():
            self._send(PlacedQueue(server, keys), destination, messages)

    def _send(self, queue: PlacedQueue, destination: Destination, messages: list[Any]) -> None:
        """Send or stage messages, as the options say."""
        options, rsmq, keys = self._options, queue.server.rsmq, queue.keys
        raws = [each.raw for each in messages] if options.restore else messages
        largest = 0
        if options.enforce_maxsize:
            largest = measure_largest(raws, is_text=self._is_text)
        if options.is_staged:
            parts = self._parts.setdefault(queue.label, [])
            part = f"{self._prefix}:{self._attempt}:{len(parts)}"
            is_staged = rsmq.run(
                stage_messages(
                    queue.server.namespace,
                    keys,
                    part,
                    messages,
                    largest=largest,
                    delay_ms=destination.delay_ms,
                    lifetime=options.staging_retention,
                )
            )
            if is_staged:  # else another attempt has won, or an earlier run was interrupted
                parts.append(part)
        elif options.restore:
            rsmq.run(restore_messages(keys, messages, largest=largest, realtime=options.realtime))
        else:
            delay_ms = destination.delay_ms
            rsmq.run_steps(
                send_raws(
                    keys,
                    raws,
                    largest=largest,
                    delay=b"" if delay_ms is None else digits(delay_ms),
                    channel=keys.channel if options.realtime else b"",
                )
            )


def create_queue(options: SinkOptions, queue: str) -> None:
    """Create a queue with the attributes of the options in each cell where it does not exist."""
    for server in get_servers(options.connection):
        with server.naming_cell():
            server.rsmq.create_queue(queue, vt=options.vt, maxsize=options.maxsize, exist_ok=True)


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
            for server in get_servers(options.connection):
                with server.naming_cell():
                    server.require(options.queue)
        except QueueNotFound as error:
            if not options.create_queue:
                error.hint = "createQueue=true creates it."
                raise
            create_queue(options, options.queue)


def is_written(home: Server, write: str, batch: int) -> bool:
    """
    Return whether a batch of a write is done already: then Spark repeats it after a crash.

    Args:
        home: the server that stores the decisions of the write.
        write: the name of the write.
        batch: the number of the batch.

    Raises:
        CheckpointSetBack: a later batch was done or decided, so Spark repeats an older batch than
            the last one.
    """
    last, is_unfinished = _read_last_batch(home, write)
    if last > batch:
        raise _make_checkpoint_set_back(write, batch, last)
    return last == batch and not is_unfinished


def _make_checkpoint_set_back(write: str, batch: int, last: int) -> CheckpointSetBack:
    return CheckpointSetBack(f"query {write}", batch, last, "written", "")


def _read_last_batch(home: Server, write: str) -> tuple[int, bool]:
    """
    Return the last batch of a write that was done or decided, and whether it is not done yet.

    The number is -1 if none is stored.
    """
    with home.naming_cell():
        packed = home.raw.hget(home.namespace.written, write)
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
        options: the options of the sink.
        write: the name of the write.
        batch: the number of the batch.
        decision: the parts to publish, unless a decision of this batch is stored already.
        is_named: whether the write may be repeated under its name. Else it is stored for an hour
            at most that it is done.

    Raises:
        BatchLost: a part is not in Redis any more.
        CheckpointSetBack: a later batch was published.
    """
    home = get_home(options.connection, write)
    labels = set(decision)
    retention = options.staging_retention
    lifetime = retention if is_named else min(retention, _UNNAMED_WRITE_RETENTION_SECONDS)
    while True:
        decided = _decide(options, home, write, batch, decision)
        if decided is None:
            raise _make_batch_lost(write, batch, "Nothing of it was published: run the write again")
        number, parts_by_label = decided
        if parts_by_label is None:
            break
        labels.update(parts_by_label)
        for label, parts in parts_by_label.items():
            queue = find_placed_queue(options.connection, label)
            for part in parts:
                operation = publish_staged(queue.keys, part, realtime=options.realtime)
                if queue.server.run(operation) is None:
                    raise _make_batch_lost(write, number, "Some of it was published")
        home.run(finish_write(home.namespace, write, number, lifetime=lifetime))
        if number >= batch:
            break
    if number > batch:
        raise _make_checkpoint_set_back(write, batch, number)
    for label in labels:
        delete_unused_parts(find_placed_queue(options.connection, label), write, batch)


def _decide(
    options: SinkOptions, home: Server, write: str, batch: int, decision: Decision
) -> tuple[int, Decision | None] | None:
    """
    Store the decision of a batch, unless one is stored; see ``decide_write``.

    The parts of a set of cells are checked one cell after another, before the atomic step.
    """
    has_cells = options.connection.cells is not None
    lifetime = options.staging_retention
    if has_cells:
        last, is_unfinished = _read_last_batch(home, write)
        for label, parts in decision.items() if last < batch and not is_unfinished else ():
            queue = find_placed_queue(options.connection, label)
            if queue.server.run(check_staged(queue.keys, parts, lifetime=lifetime)):
                return None
    return home.run(
        decide_write(
            home.namespace, write, batch, decision, lifetime=lifetime, is_checked=has_cells
        )
    )


def _make_batch_lost(write: str, batch: int, remedy: str) -> BatchLost:
    return BatchLost(
        f"Not all that was staged for batch {batch} of write {write} is in Redis: a queue was "
        "purged or deleted, Redis lost data, or stagingRetention is over",
        value=write,
        hint=f"{remedy}.",
    )


def delete_unused_parts(queue: PlacedQueue, write: str, batch: int) -> None:
    """Delete the staged parts of a write up to a batch, and the expired parts of all writes."""
    raw, staged = queue.server.raw, queue.keys.staged
    with queue.server.naming_cell():
        now_ms = queue.server.now_ms()
        unused = []
        for name in raw.hkeys(staged):
            part_write, part_batch, attempt, _ = name.decode().split(":")
            is_own = part_write == write and int(part_batch) <= batch
            if is_own or int(attempt.partition("-")[0]) < now_ms:
                unused.append(name)
        for begin in range(0, len(unused), 1000):
            raw.hdel(staged, *unused[begin : begin + 1000])


def _merge_parts(messages: list[WriterCommitMessage | None]) -> Decision:
    decision: Decision = {}
    for message in messages:
        if isinstance(message, TaskCommitMessage):
            for label, parts in message.parts.items():
                decision.setdefault(label, []).extend(parts)
    return decision


def _abort(
    options: SinkOptions, messages: list[WriterCommitMessage | None], write: str, batch: int
) -> None:
    """
    Delete staged parts, unless the batch is decided: the next attempt completes that one.

    A cell that can't be reached keeps its parts until they expire, so that Spark reports the error
    because of which the write is aborted.
    """
    if not options.is_staged:
        return
    connection = options.connection
    labels = set(_merge_parts(messages))
    if options.queue is not None:
        cells = (None,) if connection.cells is None else range(connection.cells)
        labels.update(make_label(cell, options.queue) for cell in cells)
    try:
        if _read_last_batch(get_home(connection, write), write) != (batch, True):
            for label in labels:
                delete_unused_parts(find_placed_queue(connection, label), write, batch)
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
        """
        options = self._options
        if options.write_id is not None:
            home = get_home(options.connection, self._write)
            if is_written(home, self._write, 0):
                return TaskCommitMessage(self._write, 0, {}, 0)
        return _TaskWriter(options, self._write, 0, is_text=self._is_text).write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the staged rows. Spark calls this on the driver, after all tasks."""
        if self._options.is_staged:
            is_named = self._options.write_id is not None
            publish(self._options, self._write, 0, _merge_parts(messages), is_named=is_named)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """
        Delete the staged rows. Messages that were already sent are not removed.

        Spark calls this on the driver, after a failure.
        """
        _abort(self._options, messages, self._write, 0)


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
        return _TaskWriter(self._options, query, batch, is_text=self._is_text).write(iterator)

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
                raise _make_checkpoint_set_back(query, batchId, last)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """
        Delete the staged rows. Messages that were already sent are not removed.

        Spark calls this on the driver, after a failure.
        """
        query = _find_query(messages)
        if query is not None:
            _abort(self._options, messages, query, batchId)


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
