"""
Migrate: all queues of a namespace into another one, or to another server.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, functions

from rsmq import QueueAttributes
from rsmq.errors import InvalidOption
from rsmq.operations.restore import restore_totals
from rsmq.spark.connections import Server
from rsmq.spark.pipelines.progress import Progress, Tell, nobody
from rsmq.spark.pipelines.queues import Queues

_KEPT = ("id", "message", "visible_at", "receive_count", "first_received")


@dataclass(frozen=True, slots=True)
class MigratedQueue:
    """
    What became of a queue.

    Attributes:
        queue: its name.
        messages: how many there were at the source.
        found: how many of these are at the target.
        checksum: of ids, bodies, times and counters of those at the source.
        same: whether those at the target have the same checksum, and the queue the same
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
    What a migration has done.

    Attributes:
        queues: each of the queues.
        messages: how many messages there were at the source.
        verified: whether all of them are at the target as they were.
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
    tell: Tell = nobody,
) -> Migrated:
    """
    Copy queues with their attributes, ids, times and counters; the source stays as it is.

    What is at the target already stays there, so a migration that was broken off is run again. For
    an exact copy nobody works on the queues meanwhile; whatever changes is told, not lost.

    Args:
        spark: the session.
        source: where the queues are.
        target: where they go; dead-letter policies go along.
        queues: their names; None takes all that are listed.
        tell: is told the progress.

    Raises:
        InvalidOption: source and target are the same.
        QueueNotFound: a queue is missing.
    """
    if (source.url, source.ns) == (target.url, target.ns):
        raise InvalidOption("target", "is the source itself: give another url or ns.")
    at, to = source.server(), target.server()
    names = list(at.rsmq.list_queues() if queues is None else dict.fromkeys(queues))
    if not names:
        return Migrated((), 0, verified=True)
    attributes = {name: at.rsmq.get_queue_attributes(name) for name in names}
    for name in names:
        _create(to, name, attributes[name])
    for name in names:
        policy = attributes[name]
        if policy.dead_letter_queue in names and policy.max_receives:
            to.rsmq.set_dead_letter_policy(name, policy.dead_letter_queue, policy.max_receives)

    subscribe = ",".join(names)
    reader = spark.read.format("rsmq").options(
        **source.options(subscribe=subscribe, bodyType="binary")
    )
    # Kept: a second reading could find something else to compare with.
    there = reader.load().select("queue", *_KEPT).persist(StorageLevel.DISK_ONLY)
    try:
        before = _sums(there)
        total = sum(number for number, _ in before.values())
        tell(Progress("migrate", f"copying {len(names)} queues, {total} messages"))
        write = target.options(restore=True, enforceMaxSize=False, queueColumn="queue")
        there.write.format("rsmq").options(**write).mode("append").save()
        for name in names:
            totals = restore_totals(to.namespace.queue(name), attributes[name])
            to.rsmq.run(totals)
        tell(Progress("migrate", "comparing", total))
        reader = spark.read.format("rsmq").options(
            **target.options(subscribe=subscribe, bodyType="binary")
        )
        copied = reader.load().select("queue", *_KEPT)
        after = _sums(copied.join(there.select("queue", "id"), ["queue", "id"], "left_semi"))
    finally:
        there.unpersist()
    results = []
    for name in names:
        messages, checksum = before.get(name, (0, 0))
        found, other = after.get(name, (0, 0))
        same = (messages, checksum) == (found, other) and _same_attributes(
            attributes[name], to.rsmq.get_queue_attributes(name)
        )
        results.append(MigratedQueue(name, messages, found, f"{checksum & 2**64 - 1:016x}", same))
    return Migrated(tuple(results), total, all(result.same for result in results))


def _create(to: Server, name: str, attributes: QueueAttributes) -> None:
    to.rsmq.create_queue(
        name,
        # Whole seconds, where another client has stored fractions: rather longer than shorter.
        vt=math.ceil(attributes.vt),
        delay=math.ceil(attributes.delay),
        maxsize=min(max(attributes.maxsize, 1024), 65536) if attributes.maxsize != -1 else -1,
        exist_ok=True,
    )


def _same_attributes(source: QueueAttributes, target: QueueAttributes) -> bool:
    names = ("vt", "delay", "maxsize", "dead_letter_queue", "max_receives")
    return all(getattr(source, name) == getattr(target, name) for name in names)


def _sums(frame: DataFrame) -> dict[str, tuple[int, int]]:
    rows = (
        frame.groupBy("queue")
        .agg(
            functions.count(functions.lit(1)).alias("number"),
            functions.bit_xor(functions.xxhash64(*_KEPT)).alias("checksum"),
        )
        .collect()
    )
    return {row["queue"]: (row["number"], row["checksum"]) for row in rows}
