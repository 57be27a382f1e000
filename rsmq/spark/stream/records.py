"""
The batches of a lease in Redis: those in flight with their messages, and the last acknowledged one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgpack

from rsmq.spark.connections import PlacedQueue, SparkServer
from rsmq.spark.operations.batches import (
    Batch,
    acknowledge_leased,
    name_part,
    parse_part_sizes,
    parse_receipts,
)
from rsmq.spark.read.field_request import pack_fields
from rsmq.wire.fields import RECEIVE_COUNT_SUFFIX


class Acknowledged(NamedTuple):
    """
    The last acknowledged batch of a query, as a cell has stored it.

    Attributes:
        number: the number of the batch, or 0.
        holder: the id of the process that may receive for the query; None if there is none.
        counts: what the offset of the batch counts, by the label of each queue; None if that was
            not stored.
    """

    number: int
    holder: bytes | None
    counts: dict[str, int] | None


class BatchRecords:
    """
    The batches in flight of a lease, and the last one that was acknowledged.

    Attributes:
        lease: the name of the lease.
        query: the name of the query, for all its queues.
    """

    def __init__(self, servers: Sequence[SparkServer], lease: str, query: str) -> None:
        """
        Read nothing.

        Args:
            servers: the server of each cell, or the only one.
            query: the name of the query, for all its queues.
        """
        self.lease = lease
        self.query = query
        self._servers = servers

    def read_acknowledged(self, server: SparkServer) -> Acknowledged:
        """Return the last batch that was acknowledged in a cell."""
        with server.naming_cell():
            stored = server.call("HGET", server.namespace.acknowledged, self.query)
        record: list[Any] = [0, b"", 0] if stored is None else msgpack.unpackb(stored, raw=True)
        number, counts, _, *holders = record
        return Acknowledged(
            int(number), holders[0] if holders else None, json.loads(counts) if counts else None
        )

    def read_last_acknowledged(self) -> tuple[int, set[bytes]]:
        """Return the number of the last batch acknowledged in any cell, or 0; and the holders."""
        records = [self.read_acknowledged(server) for server in self._servers]
        holders = {each.holder for each in records if each.holder is not None}
        return max(each.number for each in records), holders

    def read_sizes(
        self, number: int, queues: Iterable[PlacedQueue]
    ) -> dict[PlacedQueue, list[int]]:
        """Return the sizes of the parts of a batch, by each queue that has some."""
        found = {}
        for queue in queues:
            with queue.server.naming_cell():
                packed = queue.server.call(
                    "HGET", queue.keys.leases, str(Batch(self.lease, number))
                )
            if sizes := parse_part_sizes(packed):
                found[queue] = sizes
        return found

    def read_counts(self, number: int, queues: Iterable[PlacedQueue]) -> dict[str, int]:
        """Return how many messages of a batch are in flight, by the label of each queue."""
        found = self.read_sizes(number, queues)
        return {queue.label: sum(sizes) for queue, sizes in found.items()}

    def read_in_flight(self, queues: Iterable[PlacedQueue]) -> set[int]:
        """Return the numbers of the batches in flight."""
        numbers: set[int] = set()
        for queue in queues:
            with queue.server.naming_cell():
                fields = queue.server.call("HKEYS", queue.keys.leases)
            numbers.update(
                int(field.split(b":")[1])
                for field in fields
                if field.startswith(f"{self.lease}:".encode()) and field.count(b":") == 1
            )
        return numbers

    def find_start(self, queues: Sequence[PlacedQueue]) -> tuple[int, dict[str, int]]:
        """
        Return the batch after which a new checkpoint of a named lease starts.

        Returns:
            The number of the batch: the last that was acknowledged, or the one before the first
            batch in flight, whichever is higher; 0 if there is none. And, by the label of each
            queue, how many messages of this batch an interrupted acknowledgement has left.
        """
        last, _ = self.read_last_acknowledged()
        last = max(last, min(self.read_in_flight(queues), default=1) - 1)
        return last, self.read_counts(last, queues)

    def find_last(self, queues: Sequence[PlacedQueue]) -> tuple[int, dict[str, int], bool]:
        """
        Return the batch that was received last, by any process.

        Returns:
            The number of the batch, or 0. What its offset counts, by the label of each queue. And
            whether its acknowledgement has begun: Spark has committed it.
        """
        records = [self.read_acknowledged(server) for server in self._servers]
        done = max(each.number for each in records)
        last = max(done, *self.read_in_flight(queues), 0)
        if last == done:
            for each in records:
                if each.number == done and each.counts is not None:
                    return done, each.counts, True
        return last, self.read_counts(last, queues), last == done

    def is_in_flight(self, number: int, queues: Sequence[PlacedQueue]) -> bool:
        """Return whether a batch is in flight, and its acknowledgement has not begun."""
        last, _ = self.read_last_acknowledged()
        return last < number and number in self.read_in_flight(queues)


def acknowledge_parts(
    queue: PlacedQueue, batch: Batch, number: int, *, query: str, counts: Mapping[str, int] | None
) -> Iterator[tuple[int, int]]:
    """
    Delete the messages of the first ``number`` parts of a batch, at least one, and its receipts.

    Each part is one atomic step, when the result is iterated. A batch without parts is stored as
    acknowledged, too.

    Args:
        queue: the queue.
        batch: the batch.
        number: the number of its parts.
        query: the name of the query, under which the number of the batch is stored.
        counts: what the offset of the batch counts, by the label of each queue; None stores nothing
            of it.

    Yields:
        Of each part, how many messages were deleted, and how many another consumer has received
        since.

    Raises:
        CellFailed: the server of the cell can't be reached.
    """
    server, keys = queue.server, queue.keys
    text = b"" if counts is None else json.dumps(counts).encode()
    with server.naming_cell():
        for part in range(max(1, number)):
            operation = acknowledge_leased(
                server.namespace, keys, batch, part, query=query, counts=b"" if part else text
            )
            yield server.rsmq.run(operation)
        server.call("HDEL", keys.leases, str(batch))


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
