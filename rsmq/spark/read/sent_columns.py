"""
The columns of the options that messages were sent with: groups, limit keys, expiry and retries.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import DataType, LongType, StringType, TimestampType

from rsmq.vocabulary.sends import ValueKind
from rsmq.vocabulary.stored import SHOWN_FACTS
from rsmq.wire.fields import LIMITED
from rsmq.wire.groups import NO_GROUP, parse_group
from rsmq.wire.ids import GROUP_MARK
from rsmq.wire.stored import parse_integer

if TYPE_CHECKING:  # so that a process imports them only when it reads
    from rsmq.spark.connections import SparkServer
    from rsmq.wire.keys import QueueKeys

#: The columns of a group, or of a limit key.
GROUP_COLUMNS: dict[str, DataType] = {
    each.name: StringType() if each.kind is ValueKind.LABEL else LongType() for each in SHOWN_FACTS
}
_LIMIT_COLUMNS: dict[str, DataType] = {
    "expires_at": TimestampType(),
    "max_retries": LongType(),
}
#: The columns by name; only reads that name them have them.
SENT_COLUMNS = {**GROUP_COLUMNS, **_LIMIT_COLUMNS}


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
    found: dict[str, Any] = {}
    if not GROUP_COLUMNS.keys().isdisjoint(wanted):
        records = _read_groups(server, keys, ids)
        found = dict.fromkeys(GROUP_COLUMNS, [None] * len(ids))
        if records:
            names = [parse_group(records[id][1]) if id in records else NO_GROUP for id in ids]
            found["group"] = [_to_text(name.group) for name in names]
            found["limit_key"] = [_to_text(name.limit_key) for name in names]
            found["max_running"] = [name.max_running for name in names]
        if records and "visible_at" in columns:
            found["visible_at"] = _read_visible_at(server, keys, columns, records)
    if not _LIMIT_COLUMNS.keys().isdisjoint(wanted):
        found |= _read_limits(server, keys, ids)
    return {**columns, **found}


def _read_groups(
    server: SparkServer, keys: QueueKeys, ids: Sequence[bytes]
) -> dict[bytes, tuple[int, bytes]]:
    """Return by id the Unix ms from which a message may be due, and its group as stored."""
    marked = [id for id in ids if id.endswith(GROUP_MARK)]
    found = {}
    if marked:
        for id, record in zip(marked, server.hmget(keys.group_of, marked), strict=True):
            due, separator, group = (record or b"").partition(b":")
            if separator and group and due.isdigit():
                found[id] = int(due), group
    return found


def _read_visible_at(
    server: SparkServer,
    keys: QueueKeys,
    columns: dict[str, Any],
    records: dict[bytes, tuple[int, bytes]],
) -> array[float]:
    """Return when messages are visible, or may be due if they are held back, Unix ms."""
    members = [group + b"\0" + id for id, (_, group) in records.items()]
    places = server.call("ZMSCORE", keys.held_back, *members)
    scores = server.call("ZMSCORE", keys.zset, *records)
    now = {
        id: float((records[id][0] if place is not None else score) or 0)
        for id, place, score in zip(records, places, scores, strict=True)
    }
    counts = columns.get("receive_count") or [0] * len(columns["id"])
    visible = zip(columns["id"], columns["visible_at"], counts, strict=True)
    # A message that was held back when its score was read may be due since.
    return array(
        "d", (min(at, now.get(id) or at) if not count else at for id, at, count in visible)
    )


def _read_limits(server: SparkServer, keys: QueueKeys, ids: Sequence[bytes]) -> dict[str, Any]:
    ends: list[int | None] = [None] * len(ids)
    retries: list[int | None] = [None] * len(ids)
    if server.call("HEXISTS", keys.hash, LIMITED):
        for place, record in enumerate(server.hmget(keys.limits, ids)):
            first, _, second = (record or b"").partition(b":")
            retries[place], ends[place] = (
                parse_integer(first or None),
                parse_integer(second or None),
            )
    return {"expires_at": ends, "max_retries": retries}


def _to_text(name: str | None) -> str | None:
    """Return a name without lone surrogates, which stand for bytes that are not UTF-8."""
    return None if name is None else name.encode("utf-8", "replace").decode()
