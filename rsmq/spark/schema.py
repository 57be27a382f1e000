"""
The columns of a message in Spark, and record batches of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyarrow import compute
from pyspark.sql.types import (
    BinaryType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from rsmq.errors import InvalidOption
from rsmq.spark.options import SourceOptions
from rsmq.wire.ids import parse_sent_us_many

_TIME = pa.timestamp("us", tz="UTC")
_ARROW: dict[type[DataType], pa.DataType] = {
    StringType: pa.string(),
    BinaryType: pa.binary(),
    TimestampType: _TIME,
    LongType: pa.int64(),
}
_YEAR_10000_MS = 253_402_300_800_000
_MOST = 2**63 - 1

ALL = ("queue", "id", "message", "sent", "first_received", "receive_count", "visible_at")
_MAYBE_NULL = ("sent", "first_received", "visible_at")


def schema_of(options: SourceOptions) -> StructType:
    """
    The columns that options ask for.

    Raises:
        InvalidOption: there is no such column.
    """
    known = _fields(binary=options.binary)
    default = (*ALL[:3], "raw", *ALL[3:]) if options.include_raw else ALL
    chosen = options.columns or default
    for name in chosen:
        if name not in known or chosen.count(name) > 1:
            raise InvalidOption(
                "columns",
                f"names some of {', '.join(known)}, each once, with commas between; got {name!r}.",
                value=name,
            )
    if options.include_raw and "raw" not in chosen:
        chosen = (*chosen, "raw")
    return StructType([known[name] for name in chosen])


def check_schema(schema: StructType) -> None:
    """
    Hold a schema that a user gave against the columns there are.

    Raises:
        InvalidOption: a column or its type is unknown.
    """
    for field in schema.fields:
        if not field.nullable and field.name in _MAYBE_NULL:
            raise InvalidOption(
                "schema", f"column {field.name} can be null: say so.", value=field.name
            )
        possible = {
            known[field.name].dataType
            for known in (_fields(binary=False), _fields(binary=True))
            if field.name in known
        }
        if field.dataType not in possible:
            known = ", ".join(
                f"{each.name} {each.dataType.simpleString()}"
                for each in _fields(binary=False).values()
            )
            raise InvalidOption(
                "schema",
                f"there is no column {field.name} {field.dataType.simpleString()}. There are "
                f"{known}; message may also be binary.",
                value=field.name,
            )


def _fields(*, binary: bool) -> dict[str, StructField]:
    text, time = StringType(), TimestampType()
    fields = [
        StructField("queue", text, nullable=False),
        StructField("id", text, nullable=False),
        StructField("message", BinaryType() if binary else text),
        StructField("raw", BinaryType()),
        StructField("sent", time),
        StructField("first_received", time),
        StructField("receive_count", LongType()),
        StructField("visible_at", time),
    ]
    return {field.name: field for field in fields}


def arrow_schema(schema: StructType) -> pa.Schema:
    """The same columns for Arrow, just as Spark expects them."""
    return pa.schema(
        [pa.field(each.name, _ARROW[type(each.dataType)], each.nullable) for each in schema.fields]
    )


def record_batch(schema: pa.Schema, queue: str, columns: Mapping[str, Sequence[Any]]) -> Any:
    """
    A batch of messages of one queue.

    Args:
        schema: the columns wanted.
        queue: the queue's name.
        columns: of each message its ``id`` and body (``raw``), bytes; ``receive_count``; and
            ``first_received`` and ``visible_at`` in Unix ms. What the schema doesn't want may be
            missing; what is unknown is None in all rows.
    """
    ids = columns["id"]
    arrays = []
    for field in schema:
        if field.name == "queue":
            column = pa.repeat(pa.scalar(queue, pa.string()), len(ids))
        elif field.name == "id":
            column = _texts(ids)
        elif field.name == "sent":
            column = pa.array(parse_sent_us_many(ids), pa.int64()).cast(_TIME)
        elif field.name in ("first_received", "visible_at"):
            column = _times(columns[field.name]) if field.name in columns else None
        elif field.name == "receive_count":
            column = _counts(columns["receive_count"])
        elif field.type == pa.binary():
            column = pa.array(columns["raw"], pa.binary())
        else:
            column = _texts(columns["raw"])
        arrays.append(pa.nulls(len(ids), field.type) if column is None else column)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _texts(raws: Sequence[bytes]) -> Any:
    try:
        return pa.array(raws, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:  # one that is not UTF-8 must not stop a query
        return pa.array([shown(raw) for raw in raws], pa.string())


def shown(raw: bytes) -> str:
    """Bytes as a text; those that are no UTF-8 become U+FFFD."""
    return raw.decode("utf-8", "replace")


def _times(ms: Sequence[float | None]) -> Any:
    if isinstance(ms, list) and ms.count(None) == len(ms):
        return None
    try:
        given = pa.array(ms, pa.float64() if isinstance(ms, array) else pa.int64())
    except (pa.ArrowInvalid, OverflowError):  # a time beyond the usual range
        return pa.array([unix_us(each) for each in ms], pa.int64()).cast(_TIME)
    known = compute.and_(compute.greater_equal(given, 0), compute.less(given, _YEAR_10000_MS))
    us = compute.multiply(compute.if_else(known, given, None), 1000)
    if isinstance(ms, array):
        us = compute.round(us).cast(pa.int64())
    return us.cast(_TIME)


def unix_us(ms: float | None) -> int | None:
    """Unix ms as a timestamp has it; one beyond what a datetime can say is none."""
    return round(ms * 1000) if ms is not None and 0 <= ms < _YEAR_10000_MS else None


def _counts(counts: Sequence[int]) -> Any:
    try:
        return pa.array(counts, pa.int64())
    except OverflowError:
        return pa.array([min(max(count, -_MOST), _MOST) for count in counts], pa.int64())
