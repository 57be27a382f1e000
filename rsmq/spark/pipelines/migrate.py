"""
The job migrate: copies all queues of a namespace to another namespace or server.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, functions

from rsmq import QueueAttributes
from rsmq.errors import InvalidOption
from rsmq.operations.restore import restore_totals
from rsmq.printable import format_count
from rsmq.spark.connections import SparkServer
from rsmq.spark.pipelines.progress import JobProgress, ProgressCallback, ignore_progress
from rsmq.spark.pipelines.queues import Queues, count_partitions
from rsmq.spark.read.sent_columns import SENT_COLUMNS

_COMPARED_ATTRIBUTES = (
    "vt", "delay", "maxsize", "dead_letter_queue", "max_receives", "keep", "expired",
    "max_running", "rate", "paused",
)  # fmt: skip
_COMPARED_COLUMNS = (
    "id", "message", "visible_at", "receive_count", "first_received", *SENT_COLUMNS,
)  # fmt: skip
_HAS_GROUP = "`group` IS NOT NULL OR limit_key IS NOT NULL"


@dataclass(frozen=True, slots=True)
class MigratedQueue:
    """
    The result of the migration of one queue.

    Attributes:
        queue: the queue's name.
        messages: the number of messages at the source.
        found: how many of these are at the target.
        checksum: the checksum of the ids, bodies, times and counters of the messages at the source.
        same: whether these messages have the same checksum at the target, and the queue the same
            attributes.
    """

    queue: str
    messages: int
    found: int
    checksum: str
    same: bool


@dataclass(frozen=True, slots=True)
class Migrated:
    """
    The result of a migration.

    Attributes:
        queues: the result of each queue.
        messages: the number of messages at the source.
        verified: whether all queues and messages are at the target unchanged.
    """

    queues: tuple[MigratedQueue, ...]
    messages: int
    verified: bool


def migrate(
    spark: SparkSession,
    source: Queues,
    target: Queues,
    queues: Sequence[str] | None = None,
    *,
    tell: ProgressCallback = ignore_progress,
) -> Migrated:
    """
    Copy queues with their attributes, and messages with their ids, times and counters.

    The queues and messages also keep their groups, limits, expiry and pause.

    The source is not changed. Queues and messages that are at the target already stay there, so an
    interrupted migration can be run again. For an exact copy, no client may use the queues
    meanwhile; the result reports changes, and no message is lost by them.

    Args:
        spark: the session.
        source: the server and the namespace of the queues.
        target: the server and the namespace to copy to. The dead-letter policy of a queue is
            copied if its dead-letter queue is copied too.
        queues: the names of the queues; None is all listed queues.
        tell: a function that is called with each ``JobProgress``.

    Raises:
        InvalidOption: source and target are the same, or one has several namespaces.
        QueueNotFound: a queue does not exist.
    """
    source.require_one_namespace()
    target.require_one_namespace()
    if source.shares_queues(target):
        raise InvalidOption("target", "is the source itself: give another url or ns.")
    names = source.list_names() if queues is None else list(dict.fromkeys(queues))
    if not names:
        return Migrated((), 0, verified=True)
    (source_server,), (server,) = source.servers(), target.servers()
    attributes = _copy_queues(source_server, server, names)

    reading = {
        "subscribe": ",".join(names),
        "columns": ",".join(("queue", *_COMPARED_COLUMNS)),
        "bodyType": "binary",
        "snapshot": "exact",
        "numPartitions": count_partitions(spark),
    }
    reader = spark.read.format("rsmq").options(**source.options(**reading))
    # Persisted, because a second read could differ from what was copied.
    originals = reader.load().persist(StorageLevel.DISK_ONLY)
    try:
        before = _compute_checksums(originals)
        total = sum(number for number, *_ in before.values())
        counts = f"{format_count(len(names), 'queue')}, {format_count(total)}"
        tell(JobProgress("migrate", f"copying {counts}"))
        sink_options = target.options(restore=True, enforceMaxSize=False, queueColumn="queue")
        for frame in _divide_by_groups(originals, before):
            frame.write.format("rsmq").options(**sink_options).mode("append").save()
        for name in names:
            server.rsmq.run(restore_totals(server.namespace.queue(name), attributes[name]))
        tell(JobProgress("migrate", "comparing", total))
        reader = spark.read.format("rsmq").options(**target.options(**reading))
        copied = reader.load()
        after = _compute_checksums(
            copied.join(originals.select("queue", "id"), ["queue", "id"], "left_semi")
        )
    finally:
        originals.unpersist()
    results = []
    for name in names:
        messages, checksum, _ = before.get(name, (0, 0, 0))
        found, target_checksum, _ = after.get(name, (0, 0, 0))
        same = (messages, checksum) == (found, target_checksum) and _has_same_attributes(
            attributes[name], server.rsmq.get_queue_attributes(name)
        )
        results.append(MigratedQueue(name, messages, found, f"{checksum & 2**64 - 1:016x}", same))
    return Migrated(tuple(results), total, all(result.same for result in results))


def _copy_queues(
    source: SparkServer, target: SparkServer, names: Sequence[str]
) -> dict[str, QueueAttributes]:
    """Create the queues at the target; return their attributes at the source, by name."""
    all_attributes = {name: source.rsmq.get_queue_attributes(name) for name in names}
    for name, attributes in all_attributes.items():
        target.rsmq.create_queue(
            name,
            # Other clients may have stored fractions: rounded up, messages are rather hidden
            # longer.
            vt=math.ceil(attributes.vt),
            delay=math.ceil(attributes.delay),
            maxsize=min(max(attributes.maxsize, 1024), 65536) if attributes.maxsize != -1 else -1,
            keep=math.ceil(attributes.keep or 0),
            exist_ok=True,
        )
        stored = target.rsmq.get_queue_attributes(name)
        if stored.total_sent or stored.messages:
            continue  # a queue that is in use keeps its limits and its state
        if attributes.max_running is not None or attributes.rate is not None:
            target.rsmq.set_queue_limits(
                name, max_running=attributes.max_running, rate=attributes.rate
            )
        if attributes.paused:
            target.rsmq.pause_queue(name)
    for name, policy in all_attributes.items():
        if policy.dead_letter_queue in names and policy.max_receives:
            target.rsmq.set_dead_letter_policy(name, policy.dead_letter_queue, policy.max_receives)
            target.rsmq.set_queue_attributes(name, expired=policy.expired)
    return all_attributes


def _has_same_attributes(source: QueueAttributes, target: QueueAttributes) -> bool:
    return all(getattr(source, name) == getattr(target, name) for name in _COMPARED_ATTRIBUTES)


def _divide_by_groups(
    messages: DataFrame, checksums: Mapping[str, tuple[int, int, int]]
) -> list[DataFrame]:
    """
    Return the messages in one frame, or those with groups in a second one, in the order of groups.

    The first message of a group that arrives is the first that is due there, so one task writes a
    group, in the order of the ids.
    """
    if not any(grouped for *_, grouped in checksums.values()):
        return [messages]
    by_group = messages.where(_HAS_GROUP).repartition("queue", "group", "limit_key", "max_running")
    return [messages.where(f"NOT ({_HAS_GROUP})"), by_group.sortWithinPartitions("id")]


def _compute_checksums(frame: DataFrame) -> dict[str, tuple[int, int, int]]:
    """
    Return figures of the messages of each queue.

    These are their number, a checksum that ignores their order, and how many have a group or a
    limit key.
    """
    rows = (
        frame.groupBy("queue")
        .agg(
            functions.count(functions.lit(1)).alias("number"),
            functions.bit_xor(functions.xxhash64(*_COMPARED_COLUMNS)).alias("checksum"),
            functions.count_if(functions.expr(_HAS_GROUP)).alias("grouped"),
        )
        .collect()
    )
    return {row["queue"]: (row["number"], row["checksum"], row["grouped"]) for row in rows}
