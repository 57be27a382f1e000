"""
The reading of the messages of a stream's batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rsmq.spark.connections import PlacedQueue
from rsmq.spark.operations.batches import Batch, name_part, parse_receipts
from rsmq.spark.read.field_request import pack_fields
from rsmq.wire.fields import RECEIVE_COUNT_SUFFIX


def read_leased_messages(queue: PlacedQueue, batch: Batch, part: int) -> dict[str, Any] | None:
    """
    Return the messages of a part whose receipts are still valid; change nothing.

    Commands without a script: a script takes three times as long, because it copies each body into
    a string of Lua and back.

    Returns:
        The columns ``id`` and ``raw`` (bytes), ``receive_count``, and ``first_received`` in Unix
        ms. The bodies and the receive counts are those of one moment. None if the part does not
        exist.

    Raises:
        CellFailed: the server of the cell can't be reached.
    """
    server, keys, field = queue.server, queue.keys, name_part(batch, part)
    with server.naming_cell():
        packed = server.call("HGET", keys.leases, field)
        if packed is None:
            return None
        receipts = parse_receipts(packed)
        fields = pack_fields(keys.hash, receipts.ids, (b"", RECEIVE_COUNT_SUFFIX))
        # A part that exists after the messages were read existed before, too: it was not purged.
        values, is_stored = server.request([fields, (b"HEXISTS", keys.leases, field)])
    if not is_stored:
        return None
    columns: dict[str, Sequence[Any]] = {
        "id": receipts.ids,
        "raw": values[::2],
        "receive_count": receipts.receive_counts,
        "first_received": receipts.first_received_ms,
    }
    is_valid = [
        raw is not None and count == b"%d" % receipts.receive_counts[place]
        for place, (raw, count) in enumerate(zip(values[::2], values[1::2], strict=True))
    ]
    if all(is_valid):
        return columns
    return {
        name: [value for value, is_kept in zip(column, is_valid, strict=True) if is_kept]
        for name, column in columns.items()
    }
