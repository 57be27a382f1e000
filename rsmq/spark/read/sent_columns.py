"""
The columns of the options that messages were sent with: groups, limit keys, expiry and retries.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import DataType, LongType, StringType, TimestampType

from rsmq.operations.reading import read_records
from rsmq.vocabulary.sends import ValueKind
from rsmq.vocabulary.stored import GROUP, MESSAGE_RECORDS, FoundRecord

if TYPE_CHECKING:  # so that a process imports them only when it reads
    from rsmq.spark.connections import SparkServer
    from rsmq.wire.keys import QueueKeys

_TYPES: dict[ValueKind, type[DataType]] = {
    ValueKind.LABEL: StringType,
    ValueKind.WHOLE_NUMBER: LongType,
    ValueKind.TIME: TimestampType,
}
#: The columns by name; only reads that name them have them.
SENT_COLUMNS: dict[str, DataType] = {
    value.column: _TYPES[value.kind]()
    for record in MESSAGE_RECORDS
    for value in sorted(record.values, key=lambda value: value.name)
}


def read_sent_columns(
    server: SparkServer, keys: QueueKeys, columns: dict[str, Any], wanted: Collection[str]
) -> dict[str, Any]:
    """
    Return columns of messages, and those of ``wanted`` that this module reads.

    With a column of groups, the ``visible_at`` of a message that is held back is the time from
    which it may be due, as its score is a day ahead.

    Args:
        server: the server of the queue.
        keys: the keys of the queue.
        columns: the columns ``id`` (bytes) and others, as of ``build_record_batch``.
        wanted: the names of the columns of a read.

    Raises:
        NoPermissionError: the user lacks the right to a key of groups or limits that is needed.
    """
    ids = columns["id"]
    if not ids:
        return columns
    read: dict[str, Any] = {}
    for record in MESSAGE_RECORDS:
        names = {each.column: each.name for each in record.values}
        if names.keys().isdisjoint(wanted):
            continue
        found = read_records(record, server.hmget, keys.zset, keys.hash, ids)
        values = {id: record.read(each.text) for id, each in found.items()}
        for column, name in names.items():
            read[column] = [_to_column(values.get(id, {}).get(name)) for id in ids]
        if record is GROUP and found and "visible_at" in columns:
            read["visible_at"] = _read_visible_at(server, keys, columns, found)
    return {**columns, **read}


def _read_visible_at(
    server: SparkServer,
    keys: QueueKeys,
    columns: dict[str, Any],
    records: dict[bytes, FoundRecord],
) -> array[float]:
    """Return when messages are visible, or may be due if they are held back, Unix ms."""
    members = [each.text + b"\0" + id for id, each in records.items()]
    places = server.call("ZMSCORE", keys.held_back, *members)
    scores = server.call("ZMSCORE", keys.zset, *records)
    now = {
        id: float((records[id].due_ms if place is not None else score) or 0)
        for id, place, score in zip(records, places, scores, strict=True)
    }
    counts = columns.get("receive_count") or [0] * len(columns["id"])
    visible = zip(columns["id"], columns["visible_at"], counts, strict=True)
    # A message that was held back when its score was read may be due since.
    return array(
        "d", (min(at, now.get(id) or at) if not count else at for id, at, count in visible)
    )


def _to_column(value: Any) -> Any:
    """Return a text without lone surrogates, which stand for bytes that are not UTF-8."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
