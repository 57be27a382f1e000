"""
The conversion of rows in Spark's record batches to messages.
"""

from __future__ import annotations

import base64
import difflib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import msgpack
import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    DataType,
    LongType,
    NumericType,
    StringType,
    StructType,
    TimestampType,
)

from rsmq.errors import InvalidFormat, InvalidOption, MessageNotString, show
from rsmq.operations.restore import RestoredMessage
from rsmq.spark.read.sent_columns import SENT_COLUMNS
from rsmq.spark.write.send_columns import (
    LabelledRow,
    check_values,
    column_option_of,
    column_type,
    format_rows,
    to_value,
)
from rsmq.spark.write.sink_options import SinkOptions
from rsmq.vocabulary.sends import SPARK, ValueKind
from rsmq.vocabulary.stored import MESSAGE_RECORDS
from rsmq.wire.ids import check_id, may_have_group
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
