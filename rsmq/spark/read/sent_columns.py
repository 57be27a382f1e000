"""
The columns of facts that are stored beside messages; a read asks for those that its columns need.

``SENT_COLUMNS`` are the options that messages were sent with, and that a write restores: groups,
limit keys, expiry and retries. ``FACT_COLUMNS`` are others. A rate is not stored of a message.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import BooleanType, DataType, LongType, MapType, StringType, TimestampType

from rsmq.operations.operation import Operation, on_queue
from rsmq.operations.reading import read_records
from rsmq.operations.replies import parse_reason
from rsmq.operations.scripts import loader_of
from rsmq.vocabulary.sends import ValueKind
from rsmq.vocabulary.stored import GROUP, MESSAGE_RECORDS, FoundRecord
from rsmq.wire.envelopes import read_headers
from rsmq.wire.keys import QueueKeys, job_key

if TYPE_CHECKING:
    from rsmq.spark.connections import SparkServer

_MAX_INT64 = 2**63 - 1

_REASONS: dict[str, tuple[str, DataType]] = {
    "from_queue": ("queue", StringType()),
    "reason": ("text", StringType()),
    "exception": ("exception", StringType()),
    "traceback": ("traceback", StringType()),
    "worker": ("worker", StringType()),
    "attempts": ("attempts", LongType()),
    "died_at": ("died_ms", TimestampType()),
    "status": ("status", LongType()),
    "answer": ("answer", StringType()),
}
#: The columns of the reasons of dead letters, in order; each is null if no reason is stored.
REASON_COLUMNS = {column: kind for column, (_, kind) in _REASONS.items()}


def parse_reason_columns(stored: Sequence[bytes | None]) -> dict[str, list[Any]]:
    """
    Return the columns of stored reasons by name, with ``died_at`` in Unix ms.

    A reason that is missing or invalid is null in all columns, and a field of another type is null.

    Args:
        stored: for each message the reason as Redis stores it, or None.
    """
    found = list(map(parse_reason, stored))
    return {
        column: [
            _read_field(getattr(each, name, None), is_text=isinstance(kind, StringType))
            for each in found
        ]
        for column, (name, kind) in _REASONS.items()
    }


def _read_field(value: Any, *, is_text: bool) -> Any:
    if is_text:
        return _to_column(value) if isinstance(value, str) else None
    return value if type(value) is int and abs(value) <= _MAX_INT64 else None


load = loader_of("spark")

#: The most messages of a call.
MAX_STATES = 1000


def find_states(keys: QueueKeys, ids: Sequence[bytes]) -> Operation[list[str | None]]:
    """
    Return the state of each message at one moment; None of one that is not in the queue.

    Args:
        ids: their ids, at most 1,000.
    """
    return on_queue(
        keys,
        load("find_states"),
        (keys.hash, keys.zset),
        (keys.namespace, *ids),
        lambda reply: [each.decode() or None for each in reply],
    )


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
#: Columns that no write restores, likewise.
FACT_COLUMNS: dict[str, DataType] = {
    "headers": MapType(StringType(), StringType()),
    "track": BooleanType(),
    "state": StringType(),
}


def read_facts(
    server: SparkServer, keys: QueueKeys, columns: dict[str, Any], wanted: Collection[str]
) -> dict[str, Any]:
    """
    Return columns of messages, and those of ``wanted`` that are stored beside messages.

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
    ids: Sequence[bytes] = columns["id"]
    if not ids:
        return columns
    read: dict[str, Any] = {}
    if not REASON_COLUMNS.keys().isdisjoint(wanted):
        read |= parse_reason_columns(server.read_reasons(keys, ids))
    if "headers" in wanted:
        read["headers"] = list(map(_read_headers, columns["raw"]))
    if "track" in wanted:
        states = server.request([(b"HGET", job_key(keys.zset, id), b"state") for id in ids])
        read["track"] = [state is not None for state in states]
    if "state" in wanted:
        read["state"] = [
            state
            for begin in range(0, len(ids), MAX_STATES)
            for state in server.rsmq.run(find_states(keys, ids[begin : begin + MAX_STATES]))
        ]
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


def _read_headers(raw: bytes | None) -> list[tuple[Any, Any]]:
    headers = {} if raw is None else read_headers(raw)
    return [(_to_column(name), _to_column(value)) for name, value in headers.items()]


def _to_column(value: Any) -> Any:
    """Return a text without lone surrogates, which stand for bytes that are not UTF-8."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
