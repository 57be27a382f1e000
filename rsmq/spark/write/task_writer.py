"""
The write of one task of Spark: rows in record batches become messages, which are sent or staged
call by call.
"""

from __future__ import annotations

import base64
import difflib
import itertools
import json
import math
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import msgpack
import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import (
    BinaryType,
    DataType,
    LongType,
    NumericType,
    StringType,
    StructType,
    TimestampType,
)

from rsmq.codecs.readable import ReadableBodies
from rsmq.codecs.stored import refuse_copy
from rsmq.errors import (
    InvalidFormat,
    InvalidOption,
    MessageNotString,
    MessageTooLong,
    QueueNotFound,
    show,
)
from rsmq.operations.restore import RestoredMessage, restore_messages
from rsmq.operations.sending import send_raws
from rsmq.spark.connections import get_server, spare_loaded_modules
from rsmq.spark.operations.staged_writes import Decision, stage_messages
from rsmq.spark.read.sent_columns import SENT_COLUMNS
from rsmq.spark.write.sink_options import (
    LabelledRow,
    SinkOptions,
    check_rows,
    check_values,
    column_option_of,
    column_type,
    format_rows,
    to_value,
)
from rsmq.vocabulary.sends import SPARK, SendOption, ValueKind
from rsmq.vocabulary.stored import MESSAGE_RECORDS
from rsmq.wire.body_format import is_formatted
from rsmq.wire.ids import check_id, may_have_group
from rsmq.wire.keys import QueueKeys
from rsmq.wire.limits import utf16_length

_RESTORED_COLUMNS = {
    "id": StringType,
    "visible_at": TimestampType,
    "receive_count": NumericType,
    "first_received": TimestampType,
    **{
        name: NumericType if isinstance(kind, LongType) else type(kind)
        for name, kind in SENT_COLUMNS.items()
    },
}


@dataclass(frozen=True, slots=True)
class Destination:
    """
    The queue of a message, and how it is sent.

    Attributes:
        values: the options of its send that are not its own in a call; pairs.
    """

    queue: str
    values: tuple[tuple[str, Any], ...]


#: Columns of a message that was read, of which a new message has its own, or another column.
_OF_THE_MESSAGE_READ = (
    "ns", "queue", "id", "message", "raw", "sent", "first_received", "receive_count", "visible_at",
)  # fmt: skip


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """
    Check that a write has the columns that its options need, and no others.

    Raises:
        InvalidOption: a column is missing, has another type, or is none of a write.
    """
    types = {field.name: field.dataType for field in schema.fields}
    if options.message_format == "column":
        _check_column(types, "messageColumn", options.message_column, (StringType, BinaryType))
    if options.queue is None:
        if options.queue_column is None or options.queue_column not in types:
            column = "queue, or as queueColumn says"
            if options.message_format != "column":
                column = f"as queueColumn says: with {options.message_format} it has no default"
            raise InvalidOption(
                "queue",
                f"give the queue to write to, or a column with each row's ({column}); there are "
                f"{', '.join(types)}.",
            )
        _check_column(types, "queueColumn", options.queue_column, (StringType,))
    of_send = {SPARK.options[name]: column for name, column in options.send.columns.items()}
    for option, column in {**of_send, **dict(options.send.columns_in(types))}.items():
        _check_column(types, column_option_of(option), column, (column_type(option),))
    if options.restore:
        _check_column(types, "restore", "id", (StringType,))
        for name, kind in _RESTORED_COLUMNS.items():
            if name in types:
                _check_column(types, "restore", name, (kind,))
    if options.message_format == "column" and not options.ignore_extra:
        _refuse_extra_columns(types, options)


def _refuse_extra_columns(types: Iterable[str], options: SinkOptions) -> None:
    own = [options.message_column, options.queue_column or ""]
    own += _RESTORED_COLUMNS if options.restore else SPARK.options
    known = {*own, *options.send.columns.values(), *_OF_THE_MESSAGE_READ}
    for name in types:
        if name not in known:
            near = difflib.get_close_matches(name.lower(), own, 1, 0.75)
            hint = f"did you mean {near[0]}?" if near else f"a write has {', '.join(own)}."
            raise InvalidOption(
                "ignoreExtraColumns",
                f"column {name} is none of a write; {hint} Name the column that has the values of "
                "an option by the option with Column at its end, as in groupColumn; or drop it; "
                "or pass ignoreExtraColumns=true, which leaves out all such columns.",
                value=name,
            )


def _check_column(
    types: dict[str, DataType], option: str, column: str, kinds: tuple[type[DataType], ...]
) -> None:
    names = " or ".join(
        kind.__name__.removesuffix("Type").replace("Numeric", "a number").lower() for kind in kinds
    )
    if column not in types:
        raise InvalidOption(
            option, f"there is no column {column} ({names}); there are {', '.join(types)}."
        )
    if not isinstance(types[column], kinds):
        raise InvalidOption(
            option,
            f"column {column} is {types[column].simpleString()}, and must be {names}: cast it, "
            "or take the whole row with messageFormat=json.",
        )


def build_messages(options: SinkOptions, batch: Any) -> Iterator[tuple[Destination, list[Any]]]:
    """
    Yield the messages of a record batch in order, in lists of one destination.

    A message is its body as bytes, a ``LabelledRow``, or a ``RestoredMessage``. All rows are
    checked before the first message is yielded.

    Raises:
        MessageNotString: a message is null.
        InvalidOption: a queue, or an id of a restore, is null; or a value of an option is not
            valid. The error names the column, the number of rows and the rule.
        InvalidFormat: the name of a queue, or an id, is not valid.
    """
    messages = _build_bodies(options, batch)
    columns = options.send.columns_in(batch.schema.names)
    own = [batch.column(name).to_pylist() for _, name in columns]
    check_values(options.send, columns, own)
    queues = [options.queue] * len(messages)
    if options.queue is None and options.queue_column is not None:
        queues = batch.column(options.queue_column).to_pylist()
        _check_queues(options, queues)
    pairs = list(zip(columns, own, strict=True))
    labels = [values for (option, _), values in pairs if option.of_message]
    if labels:
        rows = zip(messages, *labels, strict=True)
        messages = [LabelledRow(raw, tuple(own)) for raw, *own in rows]
    shared = [each for each in pairs if not each[0][0].of_message]
    if options.queue is not None and not shared:
        yield Destination(options.queue, options.send.values), messages
        return
    destinations: dict[tuple[Any, ...], Destination] = {}
    of_rows = zip(queues, *(values for _, values in shared), strict=True)
    for message, key in zip(messages, of_rows, strict=True):
        row_destination = destinations.get(key)
        if row_destination is None:
            name, *row = key
            of_row = {
                option.name: to_value(option, value)
                for ((option, _), _), value in zip(shared, row, strict=True)
                if value is not None
            }
            values = {**dict(options.send.values), **of_row}
            row_destination = destinations[key] = Destination(name, tuple(values.items()))
        yield row_destination, [message]


def _check_queues(options: SinkOptions, queues: Sequence[str | None]) -> None:
    for name in set(queues):
        if not name:
            column, number = options.queue_column, sum(not each for each in queues)
            raise InvalidOption(
                "queueColumn",
                f"column {column} is null in {format_rows(number)}: each row must say its queue, "
                "or the option queue all rows'.",
            )
        options.connection.namespaces[0].queue(name)  # raises InvalidFormat


def _build_bodies(options: SinkOptions, batch: Any) -> list[Any]:
    """Return the bodies of all rows; with ``restore``, ``RestoredMessage`` messages instead."""
    if options.message_format != "column":
        return _encode_rows(options, batch)
    column = batch.column(options.message_column)
    raws: list[bytes] = column.cast(pa.binary()).to_pylist()
    if column.null_count:
        raise MessageNotString(
            hint=f"Column {options.message_column} is null in {format_rows(column.null_count)}. "
            "Filter such rows out, or give them a message."
        )
    return _build_restored(batch, raws) if options.restore else raws


def _build_restored(batch: Any, raws: list[bytes]) -> list[RestoredMessage]:
    def read(name: str, convert: Callable[[Any], Any]) -> list[Any]:
        has_column = name in batch.schema.names
        return convert(batch.column(name)) if has_column else [None] * len(raws)

    ids = read("id", lambda column: column.to_pylist())
    if number := ids.count(None):
        raise InvalidOption("restore", f"column id is null in {format_rows(number)}.")

    def read_values(name: str) -> list[Any]:
        return read(name, lambda column: column.to_pylist())

    def read_times(name: str) -> list[int | None]:
        return read(name, _to_unix_ms)

    columns = {
        value.name: (read_times if value.kind is ValueKind.TIME else read_values)(value.column)
        for record in MESSAGE_RECORDS
        for value in record.values
    }
    records = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return [
        RestoredMessage(
            check_id(id),
            raw,
            visible_at,
            int(count or 0),
            first_received,
            _make_records(id, values),
        )
        for id, raw, visible_at, count, first_received, values in zip(
            ids,
            raws,
            read_times("visible_at"),
            read_values("receive_count"),
            read_times("first_received"),
            records,
            strict=True,
        )
    ]


def _make_records(id: str, values: dict[str, Any]) -> dict[str, bytes]:
    """
    Return the records of a restored message, by key.

    Raises:
        InvalidOption: a value is not a record, or the id is not that of a message with a group.
    """
    found = {}
    for record in MESSAGE_RECORDS:
        try:
            text = record.make(values)
        except InvalidFormat as error:
            raise _make_wrong_row(id, str(error)) from None
        if text and record.is_marked and not may_have_group(id):
            raise _make_wrong_row(
                id, "a message with a group or limit_key has an id that ends in Gr"
            )
        if text:
            found[record.key] = text
    return found


def _make_wrong_row(id: str, rule: str) -> InvalidOption:
    return InvalidOption(
        "restore", f"the row of id {show(id)} can't be restored: {rule}.", value=id
    )


def _to_unix_ms(times: Any) -> list[int | None]:
    all_us = times.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_pylist()
    return [None if us is None else us // 1000 for us in all_us]


def _encode_rows(options: SinkOptions, batch: Any) -> list[bytes]:
    """Return each row as JSON or msgpack, without the columns of its queue and its send."""
    left_out = {options.queue_column, *options.send.columns.values()}
    rows = batch.select([name for name in batch.schema.names if name not in left_out]).to_pylist(
        maps_as_pydicts="strict"
    )
    encode = _encode_json if options.message_format == "json" else _encode_msgpack
    return [encode(row) for row in rows]


def _encode_json(row: dict[str, Any]) -> bytes:
    try:
        text = json.dumps(
            row, ensure_ascii=False, allow_nan=False, default=_to_plain, separators=(",", ":")
        )
    # A number, or the key of a map, that JSON can't represent.
    except (ValueError, TypeError):
        text = json.dumps(
            _to_json_value(row), ensure_ascii=False, default=_to_plain, separators=(",", ":")
        )
    return text.encode("utf-8")


def _to_json_value(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):  # the names of Spark's to_json
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {_to_json_key(key): _to_json_value(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_to_json_value(each) for each in value]
    return value


def _to_json_key(key: Any) -> Any:
    return key if isinstance(key, str | int | float | bool | None) else _to_plain(key)


def _encode_msgpack(row: dict[str, Any]) -> bytes:
    packed: bytes = msgpack.packb(row, default=lambda value: _to_plain(value, binary=True))
    return packed


def _to_plain(value: Any, *, binary: bool = False) -> Any:
    """Return a text for a value that JSON or msgpack lacks; ``binary``: the format has bytes."""
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes) and not binary:
        return base64.b64encode(value).decode()
    return str(value)


def measure_largest(raws: list[bytes], *, is_text: bool) -> int:
    """
    Return the size of the largest body, as ``maxsize`` counts it.

    Text counts in UTF-16 code units, bytes in bytes. Without bodies the size is 0.
    """
    if not is_text or all(map(bytes.isascii, raws)):
        return max(map(len, raws), default=0)
    return max(map(_count_utf16_units, raws), default=0)


def _count_utf16_units(raw: bytes) -> int:
    return len(raw) if raw.isascii() else utf16_length(raw.decode("utf-8", "replace"))


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
