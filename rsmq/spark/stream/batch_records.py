"""
The records of a lease in Redis: its batches in flight, and the last one that was acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgpack

from rsmq.spark.connections import PlacedQueue, SparkServer
from rsmq.spark.operations.batches import Batch, parse_part_sizes


class BatchRecords:
    """
    A reader of the batches in flight, and of the last batch that was acknowledged.

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
        self._servers = servers
        self.lease = lease
        self.query = query

    def read_acknowledged(self, server: SparkServer) -> tuple[int, bytes | None]:
        """Return the number of the last batch that was acknowledged, or 0; and the holder."""
        with server.naming_cell():
            stored = server.call("HGET", server.namespace.acknowledged, self.query)
        record: list[Any] = [0] if stored is None else msgpack.unpackb(stored, raw=True)
        return int(record[0]), dict(enumerate(record)).get(3)  # without a holder it has three items

    def read_last_acknowledged(self) -> tuple[int, set[bytes]]:
        """Return the number of the last batch acknowledged in any cell, or 0; and the holders."""
        records = [self.read_acknowledged(server) for server in self._servers]
        holders = {holder for _, holder in records if holder is not None}
        return max(number for number, _ in records), holders

    def read_sizes(self, number: int, queue: PlacedQueue) -> list[int]:
        """Return the sizes of the parts of a batch in a queue."""
        field = str(Batch(self.lease, number))
        with queue.server.naming_cell():
            return parse_part_sizes(queue.server.call("HGET", queue.keys.leases, field))

    def read_all_sizes(self, number: int, queues: Iterable[PlacedQueue]) -> dict[str, list[int]]:
        """Return the sizes of the parts of a batch, by the label of each queue that has some."""
        found = {queue.label: self.read_sizes(number, queue) for queue in queues}
        return {label: sizes for label, sizes in found.items() if sizes}

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
