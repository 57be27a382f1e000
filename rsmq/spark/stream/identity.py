"""
The names of a stream in Redis, and its offsets, which Spark stores in a checkpoint.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from rsmq.errors import NewerVersion
from rsmq.spark.connection_options import ConnectionOptions
from rsmq.spark.connections import SparkQueue, SparkServer, get_queue, get_servers
from rsmq.spark.operations.batches import Batch
from rsmq.spark.read.source_options import SourceOptions, StreamOptions

#: The version of the offsets of one namespace. An offset without a version, of an earlier library,
#: has the same form: ``queues`` has the messages by queue.
OFFSET_VERSION = 1
#: The version of the offsets of several namespaces: ``queues`` has the messages by namespace and
#: queue.
SEVERAL_VERSION = 2

#: How many messages of a batch each queue has.
QueueCounts: TypeAlias = Mapping[SparkQueue, int]


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

    @property
    def description(self) -> str:
        """The queues, the namespaces and the consumer group, for people."""
        queues = self.source.pattern or ",".join(self.source.queues)
        group = f", consumerGroup {self.lease}" if self.is_named else ""
        return f"rsmq queue {queues} of namespace {','.join(self.source.connection.names)}{group}"

    @cached_property
    def servers(self) -> list[SparkServer]:
        """The server of each namespace."""
        return get_servers(self.source.connection)

    def name_batch(self, number: int) -> Batch:
        return Batch(self.lease, number, self.query, self.holder)

    def make_offset(self, number: int, counts: QueueCounts) -> dict[str, Any]:
        """
        Return the offset of a batch.

        That of one namespace has its name, which offsets of earlier libraries lack. Only an offset
        whose query has another name than its lease has that name.
        """
        stored = self.store_counts(counts)
        offset: dict[str, Any] = {
            "version": OFFSET_VERSION, "lease": self.lease, "batch": number, "queues": stored,
        }  # fmt: skip
        names = self.source.connection.names
        if len(names) > 1 or any(isinstance(each, dict) for each in stored.values()):
            offset["version"] = SEVERAL_VERSION
        else:
            offset["ns"] = names[0]
        return offset if self.query == self.lease else {**offset, "query": self.query}

    def store_counts(self, counts: QueueCounts) -> dict[str, Any]:
        """Return counts as they are stored: by queue, or by namespace and queue if several are."""
        names = self.source.connection.names
        by_ns: dict[str, dict[str, int]] = {}
        for queue, count in counts.items():
            by_ns.setdefault(queue.server.namespace.name, {})[queue.keys.name] = count
        return by_ns if len({*names, *by_ns}) > 1 else by_ns.get(names[0], {})

    def find_counts(self, offset: dict[str, Any]) -> QueueCounts:
        """Return how many messages of a batch each queue has, from its offset."""
        return parse_counts(self.source.connection, offset["queues"], offset.get("ns"))


def parse_counts(
    connection: ConnectionOptions, stored: dict[str, Any], ns: str | None
) -> QueueCounts:
    """
    Return counts from their stored form.

    Args:
        ns: the namespace of counts by queue; None is the first of the connection. A connection of
            one namespace reads all of them there.
    """
    if ns is None or len(connection.names) == 1:
        ns = connection.names[0]
    by_ns = stored if any(isinstance(each, dict) for each in stored.values()) else {ns: stored}
    return {
        get_queue(connection, name, queue): count
        for name, counts in by_ns.items()
        for queue, count in counts.items()
    }


def find_names(offset: dict[str, Any]) -> set[str]:
    """Return the namespaces of a batch, from its offset; none if an offset of one lacks it."""
    if offset.get("version") == SEVERAL_VERSION:
        return set(offset["queues"])
    return {offset["ns"]} if "ns" in offset else set()


def check_version(offset: dict[str, Any]) -> None:
    """
    Refuse an offset of a form that this library does not know.

    Raises:
        NewerVersion: a newer version of this library has written it.
    """
    version = offset.get("version", OFFSET_VERSION)
    if version not in (OFFSET_VERSION, SEVERAL_VERSION):
        raise NewerVersion("The checkpoint", version)
