"""
The write of one task of Spark: rows become messages, and are sent or staged call by call.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql.datasource import WriterCommitMessage

from rsmq.codecs.readable import ReadableBodies
from rsmq.codecs.stored import refuse_copy
from rsmq.errors import MessageTooLong, QueueNotFound
from rsmq.operations.restore import restore_messages
from rsmq.operations.sending import send_raws
from rsmq.spark.connections import get_server
from rsmq.spark.operations.staged_writes import Decision, stage_messages
from rsmq.spark.task_process import spare_loaded_modules
from rsmq.spark.write.frame_rows import Destination, build_messages, measure_largest
from rsmq.spark.write.send_columns import check_rows
from rsmq.spark.write.sink_options import SinkOptions
from rsmq.vocabulary.sends import SendOption
from rsmq.wire.body_format import is_formatted
from rsmq.wire.keys import QueueKeys

#: The most bytes of bodies in a call; a single message may be larger.
_MAX_CALL_BYTES = 4 * 1024 * 1024

#: The most bytes of bodies that a task buffers, for all destinations together.
_MAX_BUFFERED_BYTES = 64 * 1024 * 1024


#: The remedy for a missing queue.
CREATE_HINT = "createQueue=true creates it."

_SIZE_HINT = (
    "Send less, raise the maxsize of the queue (-1 is unlimited), or pass enforceMaxSize=false. It "
    "counts UTF-16 code units of text, and bytes of bytes."
)


@dataclass
class TaskCommitMessage(WriterCommitMessage):
    """
    The result of a task, which Spark passes to the driver's commit.

    Attributes:
        batch: the number of the batch; 0 for a batch write.
        parts: the names of the staged parts, by the name of the queue.
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


class TaskWriter:
    """One attempt of one task."""

    def __init__(self, options: SinkOptions, write: str, batch: int, *, is_text: bool) -> None:
        self._options = options
        self._server = get_server(options.connection)
        self._bodies = options.connection.bodies
        self._is_text = is_text
        self._created: set[str] = set()
        self._own: list[SendOption] = []
        self._parts: Decision = {}
        self._write, self._batch = write, batch
        # The name of a part contains the Unix time in ms after which the part may be deleted.
        expires_ms = 0
        if options.is_staged:
            expires_ms = self._server.now_ms() + round(options.staging_retention * 1000)
        self._attempt = f"{expires_ms}-{secrets.token_hex(6)}"
        self._result = TaskCommitMessage(write, batch, self._parts, 0)

    def write(self, batches: Iterator[Any]) -> TaskCommitMessage:
        spare_loaded_modules()
        buffers: dict[Destination, _Buffer] = {}
        for batch in batches:
            columns = self._options.send.columns_in(batch.schema.names)
            self._own = [option for option, _ in columns if option.of_message]
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
            sizes = list(map(len, _raws_of(part)))
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
        try:
            self._send(destination, messages)
        except QueueNotFound as error:
            error.hint = CREATE_HINT
            raise
        except MessageTooLong as error:
            error.hint = _SIZE_HINT
            raise

    def _send(self, destination: Destination, messages: list[Any]) -> None:
        """Send or stage messages, as the options say."""
        options, rsmq = self._options, self._server.rsmq
        keys = self._server.namespace.queue(destination.queue)
        for raw in _raws_of(messages):
            refuse_copy(raw)
        if self._bodies is not None:
            messages = [_write_body(self._bodies, keys, each) for each in messages]
        raws, values = _raws_of(messages), dict(destination.values)
        largest = 0
        if options.enforce_maxsize:
            largest = measure_largest(raws, is_text=self._is_text)
        delay, checked = b"", None
        if not options.restore:
            delay, checked = check_rows(values, self._own, messages)
            messages = raws
        if options.is_staged:
            parts = self._parts.setdefault(keys.name, [])
            part = f"{self._write}:{self._batch}:{self._attempt}:{len(parts)}"
            is_staged = rsmq.run(
                stage_messages(
                    self._server.namespace,
                    keys,
                    part,
                    messages,
                    largest=largest,
                    lifetime=options.staging_retention,
                    delay=delay,
                    options=checked,
                )
            )
            if is_staged:  # else another attempt has won, or an earlier run was interrupted
                parts.append(part)
        elif options.restore:
            rsmq.run(restore_messages(keys, messages, largest=largest, realtime=options.realtime))
        else:
            rsmq.run_steps(
                send_raws(
                    keys,
                    raws,
                    largest=largest,
                    delay=delay,
                    channel=keys.channel if options.realtime else b"",
                    options=checked,
                )
            )


def _write_body(bodies: ReadableBodies, keys: QueueKeys, message: Any) -> Any:
    """Return a message whose body has its steps; one that has some already stays as it is."""
    raw = message if isinstance(message, bytes) else message.raw
    if is_formatted(raw):
        return message
    encoded = bodies.write(raw, keys.zset)
    written = encoded.encode() if isinstance(encoded, str) else encoded
    return written if isinstance(message, bytes) else replace(message, raw=written)


def _raws_of(messages: list[Any]) -> list[bytes]:
    """Return the bodies of messages, or of what has them as ``raw``."""
    if messages and not isinstance(messages[0], bytes):
        return [each.raw for each in messages]
    return messages


def create_queue(options: SinkOptions, queue: str) -> None:
    """Create a queue with the attributes of the options, if it does not exist."""
    rsmq = get_server(options.connection).rsmq
    rsmq.create_queue(queue, vt=options.vt, maxsize=options.maxsize, exist_ok=True)
