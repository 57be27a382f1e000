"""
The job migrate: copies all queues of a namespace to another namespace or server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, functions

from rsmq import QueueAttributes
from rsmq.errors import InvalidOption
from rsmq.errors.printable import format_count
from rsmq.figures.left_behind import LeftBehind
from rsmq.operations.copying import (
    compare_fields,
    compare_settings,
    copy_policy,
    copy_queue,
    read_fields,
    read_settings,
)
from rsmq.operations.reading import scan_ids
from rsmq.operations.restore import restore_totals
from rsmq.spark.connections import SparkServer
from rsmq.spark.pipelines.queues import Queues, count_rows, read_frame
from rsmq.spark.pipelines.streams import JobProgress, ProgressCallback, ignore_progress
from rsmq.spark.read.sent_columns import SENT_COLUMNS
from rsmq.vocabulary.queues import LIMIT
from rsmq.vocabulary.stored import Carrier

_COMPARED_COLUMNS = (
    "id", "message", "visible_at", "receive_count", "first_received", *SENT_COLUMNS,
)  # fmt: skip
#: The settings that a queue gets too that is at the target already and was never used.
_IF_UNUSED = (*LIMIT.options, "paused")
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
class NotCarried:
    """
    A setting or a fact beside messages that a queue does not have at the target.

    Attributes:
        queue: the queue's name.
        name: the attribute, or the fact as ``rsmq.vocabulary.stored`` names it.
        reason: the reason, a sentence.
    """

    queue: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Migrated:
    """
    The result of a migration.

    Attributes:
        queues: the result of each queue.
        messages: the number of messages at the source.
        verified: whether all queues and messages are at the target unchanged.
        not_carried: the settings that queues do not have at the target, since they were there
            before with their own, or have no dead-letter queue there; the attributes and tags that
            only SQS has, if they differ; and the facts beside messages that are not copied, which
            are not verified.
    """

    queues: tuple[MigratedQueue, ...]
    messages: int
    verified: bool
    not_carried: tuple[NotCarried, ...] = ()


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

    The queues and messages also keep their groups, limits, expiry and pause, and the queues the
    attributes and tags that only SQS has.

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
    }
    # Persisted, because a second read could differ from what was copied.
    originals = read_frame(spark, source, **reading).persist(StorageLevel.DISK_ONLY)
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
        copied, key = read_frame(spark, target, **reading), ["queue", "id"]
        after = _compute_checksums(copied.join(originals.select(key), key, "left_semi"))
    finally:
        originals.unpersist()
    results, lost = [], list[NotCarried]()
    for name in names:
        messages, checksum, _ = before.get(name, (0, 0, 0))
        found, target_checksum, _ = after.get(name, (0, 0, 0))
        stored = server.rsmq.get_queue_attributes(name)
        differences = [
            NotCarried(name, each.name, f"{each.wanted} at the source, {each.has} at the target")
            for each in compare_settings(read_settings(attributes[name]), stored)
        ]
        fields = compare_fields(name, _read_fields(source_server, name), _read_fields(server, name))
        differences += [NotCarried(name, field, reason) for field, reason in fields]
        lost += differences
        lost += _find_left_behind(source_server, name)
        same = (messages, checksum) == (found, target_checksum) and not differences
        checksum_text = f"{checksum & 2**64 - 1:016x}"
        results.append(MigratedQueue(name, messages, found, checksum_text, same))
    return Migrated(tuple(results), total, all(result.same for result in results), tuple(lost))


def _copy_queues(
    source: SparkServer, target: SparkServer, names: Sequence[str]
) -> dict[str, QueueAttributes]:
    """Create the queues at the target; return their attributes at the source, by name."""
    found = {name: source.rsmq.get_queue_attributes(name) for name in names}
    all_settings = {name: read_settings(attributes) for name, attributes in found.items()}
    for name, settings in all_settings.items():
        fields = _read_fields(source, name)
        steps = copy_queue(target.namespace, name, settings, fields, if_unused=_IF_UNUSED)
        target.rsmq.run_steps(steps)
    for name, settings in all_settings.items():
        if settings["dead_letter_queue"] in names:
            target.rsmq.run_steps(copy_policy(target.namespace, name, settings))
    return found


def _read_fields(server: SparkServer, name: str) -> dict[str, bytes]:
    return server.rsmq.run(read_fields(server.namespace.queue(name).hash))


def _find_left_behind(source: SparkServer, name: str) -> Iterator[NotCarried]:
    """Yield the facts beside the messages of a queue that are not copied."""
    keys, cursor = source.namespace.queue(name), b""
    left = LeftBehind(source.rsmq, Carrier.SPARK_MIGRATE, keys.zset, keys.hash)
    while cursor != b"0":
        cursor, found = source.rsmq.run(scan_ids(keys, cursor or b"0"))
        left.look_at(found[::2])
    yield from (NotCarried(name, fact, reason) for fact, reason in left.reasons.items())


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
    table = frame.groupBy("queue").agg(
        count_rows("number"),
        functions.bit_xor(functions.xxhash64(*_COMPARED_COLUMNS)),
        functions.count_if(functions.expr(_HAS_GROUP)),
    )
    return {each[0]: (each[1], each[2], each[3]) for each in table.collect()}
