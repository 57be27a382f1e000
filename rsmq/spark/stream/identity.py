"""
The names of a stream in Redis, and its offsets, which Spark stores in a checkpoint.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from rsmq.errors import InvalidOption, NewerVersion
from rsmq.printable import format_count
from rsmq.spark.connection_options import ConnectionOptions
from rsmq.spark.connections import SparkServer, get_servers
from rsmq.spark.operations.batches import Batch
from rsmq.spark.read.source_options import SourceOptions, StreamOptions

#: The version of the offsets that this library writes. An offset without a version, of an earlier
#: library, has the same form.
OFFSET_VERSION = 1

#: How many messages of a batch each queue has, by the label of the queue.
QueueCounts: TypeAlias = Mapping[str, int]


@dataclass(frozen=True)
class StreamIdentity:
    """
    The names of a stream, and the options of its process.

    Attributes:
        lease: the name of the lease.
        holder: the id of this process, under which it holds the lease.
    """

    lease: str
    source: SourceOptions
    options: StreamOptions
    holder: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def is_named(self) -> bool:
        """Whether the lease is a consumer group."""
        return self.options.consumer_group is not None

    @cached_property
    def query(self) -> str:
        """The name of the query: queries of different queues may have the same consumer group."""
        if not self.is_named:
            return self.lease
        return f"{self.lease}:{self.source.pattern or ','.join(sorted(self.source.queues))}"

    @cached_property
    def servers(self) -> list[SparkServer]:
        """The server of each cell, or the only one."""
        return get_servers(self.source.connection)

    def name_batch(self, number: int) -> Batch:
        return Batch(self.lease, number, self.query, self.holder)

    def make_offset(self, number: int, counts: QueueCounts) -> dict[str, Any]:
        """
        Return the offset of a batch.

        It has the namespace, which offsets of earlier libraries lack, and for a set of cells their
        number. Only an offset whose query has another name than its lease has that name.
        """
        connection = self.source.connection
        offset: dict[str, Any] = {
            "version": OFFSET_VERSION,
            "lease": self.lease,
            "batch": number,
            "queues": counts,
            "ns": connection.namespace.name,
        }
        if connection.cells is not None:
            offset["cells"] = connection.cells
        return offset if self.query == self.lease else {**offset, "query": self.query}


def is_of(offset: dict[str, Any], connection: ConnectionOptions) -> bool:
    """Return whether the queues of an offset are those of a connection, as far as it shows."""
    ns = connection.namespace.name
    return offset.get("ns", ns) == ns and offset.get("cells") == connection.cells


def check_version(offset: dict[str, Any]) -> None:
    """
    Refuse an offset of a form that this library does not know.

    Raises:
        NewerVersion: a newer version of this library has written it.
    """
    version = offset.get("version", OFFSET_VERSION)
    if version != OFFSET_VERSION:
        raise NewerVersion("The checkpoint", version)


def check_offset(offset: dict[str, Any], cells: int | None) -> None:
    """
    Refuse an offset that a query of so many cells can't continue from.

    Raises:
        NewerVersion: a newer version of this library has written the checkpoint.
        InvalidOption: the checkpoint is of another number of cells.
    """
    check_version(offset)
    stored = offset.get("cells")
    if stored != cells:  # its batches are in other places
        raise InvalidOption(
            "cells",
            f"the checkpoint is of {describe_cells(stored)}, and this query reads "
            f"{describe_cells(cells)}. The number of cells never changes: pass the same as "
            "before, or start with a new checkpointLocation.",
            value=cells,
        )


def describe_cells(number: int | None) -> str:
    """Return a number of cells as a text; None is an ordinary namespace."""
    return "a namespace without cells" if number is None else format_count(number, "cell")
