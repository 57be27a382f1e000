"""
Arrow record batches of messages.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from rsmq.codecs import CannotDecode
from rsmq.codecs.readable import ReadableBodies
from rsmq.errors import NotPossible
from rsmq.spark.read.sent_columns import FACT_COLUMNS, REASON_COLUMNS, SENT_COLUMNS
from rsmq.wire.body_format import PREFIX, add_origin, is_stored
from rsmq.wire.id_arrays import parse_sent_us_array
from rsmq.wire.keys import QueueKeys

#: Why messages with references to stored bodies are not consumed or archived, and the remedy.
STORED_TEXT = "A body is stored elsewhere, and would be deleted when no message has its name"
STORED_HINT = 'Read the queue with the codec of its sender: option("codec", "app:codec").'
_TIMESTAMP = pa.timestamp("us", tz="UTC")
_TIMES = ("first_received", "visible_at", "died_at", "expires_at")
_ARROW_TYPES: dict[type[DataType], pa.DataType] = {
    StringType: pa.string(),
    BinaryType: pa.binary(),
    TimestampType: _TIMESTAMP,
    LongType: pa.int64(),
    BooleanType: pa.bool_(),
    MapType: pa.map_(pa.string(), pa.string()),
}
_STORED_BESIDE = REASON_COLUMNS.keys() | SENT_COLUMNS.keys() | FACT_COLUMNS.keys()
#: The first time that a datetime can't represent, Unix ms.
_YEAR_10000_MS = 253_402_300_800_000
_MAX_INT64 = 2**63 - 1


def build_arrow_schema(schema: StructType) -> pa.Schema:
    """Return the same columns as an Arrow schema, with the types that Spark expects."""
    return pa.schema(
        [
            pa.field(each.name, _ARROW_TYPES[type(each.dataType)], each.nullable)
            for each in schema.fields
        ]
    )


def build_record_batch(
    schema: pa.Schema,
    keys: QueueKeys,
    columns: Mapping[str, Sequence[Any]],
    bodies: ReadableBodies | None = None,
    *,
    consumes: bool = False,
) -> Any:
    """
    Return a record batch of messages of one queue.

    Args:
        schema: the columns of the record batch.
        keys: those of the queue.
        columns: a list for each column: ``id`` and ``raw`` (the body) as bytes,
            ``receive_count``, and ``first_received`` and ``visible_at`` in Unix ms; and those of
            ``read_facts``. A column that the schema lacks may
            be missing. If ``first_received`` or ``visible_at`` is missing, it is null in all rows.
        bodies: reads what is inside bodies; None leaves them as they are stored.
        consumes: whether the messages are deleted when the rows are written.

    Raises:
        NotPossible: a message that is consumed has a body that is stored elsewhere.
    """
    if consumes and bodies is None and any(map(is_stored, columns.get("raw", ()))):
        raise NotPossible(STORED_TEXT, hint=STORED_HINT)
    if bodies is not None and "raw" in columns:
        raws = [_read_body(bodies, keys, raw) for raw in columns["raw"]]
        columns = {**columns, "raw": raws}
    ids = columns["id"]
    arrays = []
    for field in schema:
        if field.name in ("ns", "queue"):
            name = keys.name if field.name == "queue" else decode_lossy(keys.namespace)
            column = pa.repeat(pa.scalar(name, pa.string()), len(ids))
        elif field.name == "id":
            column = _to_id_array(ids)
        elif field.name == "sent":
            us, is_missing = parse_sent_us_array(ids)
            column = pa.array(us, pa.int64(), mask=is_missing).view(_TIMESTAMP)
        elif field.name in _TIMES:
            column = _to_timestamp_array(columns[field.name]) if field.name in columns else None
        elif field.name == "receive_count":
            column = _to_count_array(columns["receive_count"])
        elif field.name in _STORED_BESIDE:
            column = pa.array(columns[field.name], field.type)
        else:
            column = _to_body_array(columns["raw"], field.type, keys)
        arrays.append(pa.nulls(len(ids), field.type) if column is None else column)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _to_id_array(ids: Sequence[bytes]) -> Any:
    """Return ids as texts; if all have one length, which is usual, in a tenth of the time."""
    joined = b"".join(ids)
    if not joined or not joined.isascii() or len(set(map(len, ids))) != 1:
        return _to_string_array(ids)
    offsets = np.arange(0, len(joined) + 1, len(ids[0]), dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(joined)]
    return pa.Array.from_buffers(pa.string(), len(ids), buffers)


def _read_body(bodies: ReadableBodies, keys: QueueKeys, raw: bytes) -> bytes:
    try:
        return bodies.read(raw, keys.zset)
    except CannotDecode:  # one message must not stop a query
        return raw


def _to_body_array(raws: Sequence[bytes], kind: pa.DataType, keys: QueueKeys) -> Any:
    """Return bodies; those with steps name the queue, as they may be sent to another one."""
    column = _to_bytes_or_text(raws, kind)
    if not pc.any(pc.starts_with(column, PREFIX.decode())).as_py():
        return column
    return _to_bytes_or_text([add_origin(each, keys.zset) for each in raws], kind)


def _to_bytes_or_text(raws: Sequence[bytes], kind: pa.DataType) -> Any:
    return pa.array(raws, kind) if kind == pa.binary() else _to_string_array(raws)


def _to_string_array(raws: Sequence[bytes]) -> Any:
    try:
        return pa.array(raws, pa.string())
    except pa.ArrowInvalid:  # a message that is not UTF-8 must not stop a query
        return pa.array([decode_lossy(raw) for raw in raws], pa.string())


def decode_lossy(raw: bytes) -> str:
    """Return bytes as text; bytes that are not UTF-8 become U+FFFD."""
    return raw.decode("utf-8", "replace")


def _to_timestamp_array(ms: Sequence[float | None]) -> Any:
    if isinstance(ms, list) and ms.count(None) == len(ms):
        return None
    times = np.array(ms, np.float64)  # None becomes NaN
    is_valid = (times >= 0) & (times < _YEAR_10000_MS)
    times = np.where(is_valid, times, 0)
    if isinstance(ms, array):
        us = np.rint(times * 1000).astype(np.int64)
    else:
        us = times.astype(np.int64) * 1000
    return pa.array(us, mask=~is_valid).view(_TIMESTAMP)


def to_unix_us(ms: float | None) -> int | None:
    """Return Unix ms as Unix us; None for a time that a datetime can't represent."""
    return round(ms * 1000) if ms is not None and 0 <= ms < _YEAR_10000_MS else None


def _to_count_array(counts: Sequence[int]) -> Any:
    try:
        return pa.array(counts, pa.int64())
    except OverflowError:
        return pa.array([min(max(count, -_MAX_INT64), _MAX_INT64) for count in counts], pa.int64())
