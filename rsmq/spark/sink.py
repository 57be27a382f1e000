"""
The sinks of batches and streams: at least once in one step, or exactly once in two.

Exactly once: tasks stage their rows beside the queues, under names of their own; what attempts
that counted have staged is published by the driver's commit. The decision which attempts count is
one atomic step. What was decided is published part by part, and what a crash leaves is published
by the next commit of the same batch, or of the same ``writeId``.
"""

from __future__ import annotations

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

from rsmq.errors import BatchLost, CheckpointSetBack, QueueNotFound
from rsmq.operations.arguments import digits
from rsmq.operations.restore import restore_messages
from rsmq.operations.sending import send_raws
from rsmq.operations.spark.staged_writes import (
    Decision,
    adopt_staged,
    finish_staged,
    publish_staged,
    stage_messages,
)
from rsmq.spark.connections import Server, server
from rsmq.spark.frame_rows import Group, check_rows, grouped, size_of
from rsmq.spark.options import SinkOptions

#: Bytes of bodies in a call, but for a single message.
_BYTES = 4 * 1024 * 1024


#: Bytes of bodies that a task holds back at most, however many ways they go.
_HELD_BACK = 64 * 1024 * 1024

#: How long it is known of a write without a name that it was done, seconds: nobody will ask.
_MEMORY = 3600.0


@dataclass
class Written(WriterCommitMessage):
    """
    What a task has written.

    Attributes:
        write: the name of the write.
        batch: the number of the batch, 0 of a batch write.
        parts: what it staged, by queue.
        rows: how many rows it wrote or staged.
    """

    write: str
    batch: int
    parts: Decision
    rows: int


@dataclass(slots=True)
class _Buffer:
    """Messages that go one way and are not written yet."""

    messages: list[Any] = field(default_factory=list)
    size: int = 0


class _Task:
    """One attempt of one task."""

    def __init__(self, options: SinkOptions, write: str, batch: int, *, text: bool) -> None:
        self._options = options
        self._at = server(options.connection)
        self._text = text
        self._created: set[str] = set()
        self._parts: Decision = {}
        self._prefix = f"{write}:{batch}"
        # The name says until when what is staged under it is kept.
        ends = self._at.now_ms() + round(options.retention * 1000) if options.staged else 0
        self._attempt = f"{ends}-{secrets.token_hex(6)}"
        self._result = Written(write, batch, self._parts, 0)

    def write(self, batches: Iterator[Any]) -> Written:
        buffers: dict[Group, _Buffer] = {}
        for batch in batches:
            for group, message in grouped(self._options, batch):
                buffer = buffers.get(group)
                if buffer is None:
                    buffer = buffers[group] = _Buffer()
                length = len(message if isinstance(message, bytes) else message.raw)
                if buffer.messages and buffer.size + length > _BYTES:
                    self._flush(group, buffer)
                buffer.messages.append(message)
                buffer.size += length
                if len(buffer.messages) >= self._options.batch:
                    self._flush(group, buffer)
            if sum(buffer.size for buffer in buffers.values()) > _HELD_BACK:
                self._flush_all(buffers)
            self._result.rows += batch.num_rows
        self._flush_all(buffers)
        return self._result

    def _flush_all(self, buffers: dict[Group, _Buffer]) -> None:
        for group, buffer in buffers.items():
            if buffer.messages:
                self._flush(group, buffer)

    def _flush(self, group: Group, buffer: _Buffer) -> None:
        messages, buffer.messages, buffer.size = buffer.messages, [], 0
        options = self._options
        if options.create and group.queue not in self._created:
            create(self._at, options, group.queue)
            self._created.add(group.queue)
        keys = self._at.namespace.queue(group.queue)
        raws = [each.raw for each in messages] if options.restore else messages
        largest = size_of(raws, text=self._text) if options.enforce_maxsize else 0
        if options.staged:
            parts = self._parts.setdefault(group.queue, [])
            part = f"{self._prefix}:{self._attempt}:{len(parts)}"
            self._at.rsmq.run(
                stage_messages(
                    keys,
                    part,
                    messages,
                    largest=largest,
                    delay_ms=group.delay_ms,
                    lifetime=options.retention,
                )
            )
            parts.append(part)
        elif options.restore:
            self._at.rsmq.run(
                restore_messages(keys, messages, largest=largest, realtime=options.realtime)
            )
        else:
            self._at.rsmq.run_steps(
                send_raws(
                    keys,
                    raws,
                    largest=largest,
                    delay=b"" if group.delay_ms is None else digits(group.delay_ms),
                    channel=keys.channel if options.realtime else b"",
                )
            )


def create(at: Server, options: SinkOptions, queue: str) -> None:
    """Create a queue that is missing."""
    at.rsmq.create_queue(queue, vt=options.vt, maxsize=options.maxsize, exist_ok=True)


def prepare(options: SinkOptions, schema: StructType) -> None:
    """
    See that a write can be done, before any row is.

    Raises:
        InvalidOption: the columns do not fit the options.
        QueueNotFound: there is no such queue, and ``createQueue`` is false.
    """
    check_rows(schema, options)
    if options.queue is not None:
        at = server(options.connection)
        try:
            at.require(options.queue)
        except QueueNotFound as error:
            if not options.create:
                error.add_note("createQueue=true creates it.")
                raise
            create(at, options, options.queue)


def was_done(at: Server, write: str, batch: int) -> bool:
    """
    Whether this batch of a write is done already: it is a replay after a crash of Spark.

    Raises:
        CheckpointSetBack: a later batch is done, or decided: this is not a replay of the last one.
    """
    last, undone = _last(at, write)
    if last > batch:
        raise _set_back(write, batch, last)
    return last == batch and not undone


def _set_back(write: str, batch: int, last: int) -> CheckpointSetBack:
    return CheckpointSetBack(f"query {write}", batch, last, "written", "")


def _last(at: Server, write: str) -> tuple[int, bool]:
    """The last batch of a write that was decided, -1 without one; and whether it is not done."""
    packed = at.raw.hget(at.namespace.written, write)
    if packed is None:
        return -1, False
    batch, decision, _ = msgpack.unpackb(packed, raw=True)
    return batch, bool(decision)


def publish(
    options: SinkOptions, write: str, batch: int, decision: Decision, *, remember: bool = True
) -> None:
    """
    Publish what was staged, once.

    Args:
        options: the sink's.
        write: the name of the write.
        batch: the number of the batch.
        decision: what counts, unless something was decided before.
        remember: whether somebody may ask again whether this was done.

    Raises:
        BatchLost: not all of it is there.
        CheckpointSetBack: a later batch was published.
    """
    at = server(options.connection)
    queues = set(decision)
    while True:
        adopted = at.rsmq.run(
            adopt_staged(at.namespace, write, batch, decision, lifetime=options.retention)
        )
        if adopted is None:
            raise _lost(write, batch, "Nothing of it was published: run the write again")
        number, parts_of = adopted
        if parts_of is None:
            break
        queues.update(parts_of)
        for queue, parts in parts_of.items():
            keys = at.namespace.queue(queue)
            for part in parts:
                one = publish_staged(keys, part, realtime=options.realtime)
                if at.rsmq.run(one) is None:
                    raise _lost(write, number, "Some of it was published")
        lifetime = options.retention if remember else min(options.retention, _MEMORY)
        at.rsmq.run(finish_staged(at.namespace, write, number, lifetime=lifetime))
        if number >= batch:
            break
    if number > batch:
        raise _set_back(write, batch, number)
    for queue in queues:
        forget(at, queue, write, batch)


def _lost(write: str, batch: int, way_out: str) -> BatchLost:
    return BatchLost(
        f"Not all that was staged for batch {batch} of write {write} is in Redis: a queue was "
        "purged or deleted, Redis lost data, or stagingRetention is over",
        value=write,
        hint=f"{way_out}.",
    )


def forget(at: Server, queue: str, write: str, batch: int) -> None:
    """Remove what attempts have staged that do not count, and what is too old to count."""
    keys = at.namespace.queue(queue)
    now = at.now_ms()
    gone = []
    for name in at.raw.hkeys(keys.staged):
        of_write, of_batch, attempt, _ = name.decode().split(":")
        own = of_write == write and int(of_batch) <= batch
        if own or int(attempt.partition("-")[0]) < now:
            gone.append(name)
    for begin in range(0, len(gone), 1000):
        at.raw.hdel(keys.staged, *gone[begin : begin + 1000])


def _merged(messages: list[WriterCommitMessage | None]) -> Decision:
    decision: Decision = {}
    for message in messages:
        if isinstance(message, Written):
            for queue, parts in message.parts.items():
                decision.setdefault(queue, []).extend(parts)
    return decision


def _abort(
    options: SinkOptions, messages: list[WriterCommitMessage | None], write: str, batch: int
) -> None:
    queues = set(_merged(messages))
    if options.queue is not None:
        queues.add(options.queue)
    at = server(options.connection)
    if options.staged and _last(at, write) != (batch, True):  # that will be published
        for queue in queues:
            forget(at, queue, write, batch)


class BatchWriter(DataSourceArrowWriter):
    """Writes a frame; the methods are Spark's."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._text = _is_text(options, schema)
        self._write = options.write_id or secrets.token_hex(16)

    def write(self, iterator: Iterator[Any]) -> Written:
        """In a task: send, or stage, its rows."""
        options = self._options
        if options.write_id is not None and was_done(server(options.connection), self._write, 0):
            return Written(self._write, 0, {}, 0)
        return _Task(options, self._write, 0, text=self._text).write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, after all tasks."""
        if self._options.staged:
            named = self._options.write_id is not None
            publish(self._options, self._write, 0, _merged(messages), remember=named)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, after a failure. What was sent straight away stays."""
        _abort(self._options, messages, self._write, 0)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream; the methods are Spark's."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self._options = options
        self._text = _is_text(options, schema)

    def write(self, iterator: Iterator[Any]) -> Written:
        """In a task: send, or stage, its rows; nothing if the batch was done before a crash."""
        query, batch = batch_of_task()
        if was_done(server(self._options.connection), query, batch):
            return Written(query, batch, {}, 0)
        return _Task(self._options, query, batch, text=self._text).write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """On the driver, after all tasks; by another object than wrote."""
        query = _query(messages)
        if query is None:
            return
        if self._options.staged:
            publish(self._options, query, batchId, _merged(messages))
        else:
            at = server(self._options.connection)
            retention = self._options.retention
            done = finish_staged(at.namespace, query, batchId, lifetime=retention)
            last = at.rsmq.run(done)
            if last > batchId:
                raise _set_back(query, batchId, last)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """On the driver, after a failure. What was sent straight away stays."""
        query = _query(messages)
        if query is not None:
            _abort(self._options, messages, query, batchId)


def batch_of_task() -> tuple[str, int]:
    """The query and the batch that this task is of."""
    context: Any = TaskContext.get()
    return (
        context.getLocalProperty("sql.streaming.queryId"),
        int(context.getLocalProperty("streaming.sql.batchId")),
    )


def _query(messages: list[WriterCommitMessage | None]) -> str | None:
    return next((each.write for each in messages if isinstance(each, Written)), None)


def _is_text(options: SinkOptions, schema: StructType) -> bool:
    if options.format != "column":
        return options.format == "json"
    return isinstance(schema[options.message_column].dataType, StringType)
