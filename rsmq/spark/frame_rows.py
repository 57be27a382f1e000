"""
Rows of Spark's record batches as messages.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import msgpack
import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    DataType,
    NumericType,
    StringType,
    StructType,
    TimestampType,
)

from rsmq.errors import InvalidOption, MessageNotString
from rsmq.operations.restore import RestoredMessage
from rsmq.spark.options import SinkOptions
from rsmq.wire.ids import check_id
from rsmq.wire.limits import to_milliseconds, utf16_length

_RESTORED = {
    "id": StringType,
    "visible_at": TimestampType,
    "receive_count": NumericType,
    "first_received": TimestampType,
}


@dataclass(frozen=True, slots=True)
class Group:
    """
    Messages that go one way.

    Attributes:
        queue: the queue.
        delay_ms: how long they are hidden; None is the queue's delay.
    """

    queue: str
    delay_ms: int | None


def check_rows(schema: StructType, options: SinkOptions) -> None:
    """
    Hold the columns of a write against its options.

    Raises:
        InvalidOption: a column is missing or of another type.
    """
    types = {field.name: field.dataType for field in schema.fields}
    if options.format == "column":
        _require(types, "messageColumn", options.message_column, (StringType, BinaryType))
    if options.queue is None:
        if options.queue_column is None or options.queue_column not in types:
            raise InvalidOption(
                "queue",
                "give the queue to write to, or a column with each row's (queue, or as "
                f"queueColumn says); there are {', '.join(types)}.",
            )
        _require(types, "queueColumn", options.queue_column, (StringType,))
    if options.delay_column is not None and (
        options.delay_column in types or options.delay_column != "delay"
    ):
        _require(types, "delayColumn", options.delay_column, (NumericType,))
    if options.restore:
        _require(types, "restore", "id", (StringType,))
        for name, kind in _RESTORED.items():
            if name in types:
                _require(types, "restore", name, (kind,))


def _require(
    types: dict[str, DataType], option: str, column: str, kinds: tuple[type[DataType], ...]
) -> None:
    wanted = " or ".join(
        kind.__name__.removesuffix("Type").replace("Numeric", "a number").lower() for kind in kinds
    )
    if column not in types:
        raise InvalidOption(
            option, f"there is no column {column} ({wanted}); there are {', '.join(types)}."
        )
    if not isinstance(types[column], kinds):
        raise InvalidOption(
            option,
            f"column {column} is {types[column].simpleString()}, and must be {wanted}: cast it, "
            "or take the whole row with messageFormat=json.",
        )


def grouped(options: SinkOptions, batch: Any) -> Iterator[tuple[Group, bytes | RestoredMessage]]:
    """
    The messages of a record batch in order, each with where it goes.

    Raises:
        MessageNotString: a message is null.
        InvalidOption: a queue, or an id of a restore, is null.
        InvalidFormat: a queue's name, or an id, is not of their form.
        InvalidValue: a delay is out of range.
    """
    names = set(batch.schema.names)
    bodies = _bodies(options, batch)
    queues, delays = None, None
    if options.queue is None and options.queue_column is not None:
        queues = batch.column(options.queue_column).to_pylist()
    if options.delay_column in names:
        delays = batch.column(options.delay_column).to_pylist()
    if queues is None and delays is None:
        usual = Group(options.queue or "", options.delay_ms)
        yield from ((usual, body) for body in bodies)
        return
    known: dict[tuple[Any, Any], Group] = {}
    for place, body in enumerate(bodies):
        key = (queues and queues[place], delays and delays[place])
        group = known.get(key)
        if group is None:
            group = known[key] = _group(options, *key)
        yield group, body


def _group(options: SinkOptions, queue: Any, delay: Any) -> Group:
    name = queue if options.queue is None else options.queue
    if not name:
        raise InvalidOption(
            "queueColumn",
            f"column {options.queue_column} is null in a row: each row must say its queue, or "
            "the option queue all rows'.",
        )
    options.connection.namespace.queue(name)
    if delay is None:
        return Group(name, options.delay_ms)
    return Group(name, to_milliseconds("delay", float(delay)))


def _bodies(options: SinkOptions, batch: Any) -> list[Any]:  # bytes, or RestoredMessage
    if options.format != "column":
        return _whole_rows(options, batch)
    column = batch.column(options.message_column)
    raws: list[bytes] = column.cast(pa.binary()).to_pylist()
    if column.null_count:
        raise MessageNotString(
            hint=f"Column {options.message_column} is null in a row. Filter such rows out, or "
            "give them a message."
        )
    return _restored(batch, raws) if options.restore else raws


def _restored(batch: Any, raws: list[bytes]) -> list[RestoredMessage]:
    def column(name: str, read: Callable[[Any], Any]) -> list[Any]:
        there = name in batch.schema.names
        return read(batch.column(name)) if there else [None] * len(raws)

    ids = column("id", lambda found: found.to_pylist())
    if None in ids:
        raise InvalidOption("restore", "column id is null in a row.")
    visible, first = column("visible_at", _ms), column("first_received", _ms)
    counts = column("receive_count", lambda found: found.to_pylist())
    return [
        RestoredMessage(check_id(id), raw, visible_at, int(count or 0), first_received)
        for id, raw, visible_at, count, first_received in zip(
            ids, raws, visible, counts, first, strict=True
        )
    ]


def _ms(times: Any) -> list[int | None]:
    moments = times.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_pylist()
    return [None if us is None else us // 1000 for us in moments]


def _whole_rows(options: SinkOptions, batch: Any) -> list[bytes]:
    apart = {options.queue_column, options.delay_column}
    rows = batch.select([name for name in batch.schema.names if name not in apart]).to_pylist(
        maps_as_pydicts="strict"
    )
    encode = _as_json if options.format == "json" else _as_msgpack
    return [encode(row) for row in rows]


def _as_json(row: dict[str, Any]) -> bytes:
    try:
        text = json.dumps(
            row, ensure_ascii=False, allow_nan=False, default=_plain, separators=(",", ":")
        )
    except (ValueError, TypeError):  # a number or a name that JSON has not
        text = json.dumps(_named(row), ensure_ascii=False, default=_plain, separators=(",", ":"))
    return text.encode("utf-8")


def _named(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):  # as Spark's to_json has it
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {_name(name): _named(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_named(each) for each in value]
    return value


def _name(key: Any) -> Any:
    return key if isinstance(key, str | int | float | bool | None) else _plain(key)


def _as_msgpack(row: dict[str, Any]) -> bytes:
    packed: bytes = msgpack.packb(row, default=lambda value: _plain(value, binary=True))
    return packed


def _plain(value: Any, *, binary: bool = False) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes) and not binary:
        return base64.b64encode(value).decode()
    return str(value)


def size_of(raws: list[bytes], *, text: bool) -> int:
    """The size of the largest, as maxsize counts it: UTF-16 code units of text, bytes of bytes."""
    if not text:
        return max(map(len, raws), default=0)
    return max(map(_units, raws), default=0)


def _units(raw: bytes) -> int:
    return len(raw) if raw.isascii() else utf16_length(raw.decode("utf-8", "replace"))
