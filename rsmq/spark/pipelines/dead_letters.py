"""
The dead letters of a report: how many died, by cause, by worker and over time.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession, functions

from rsmq.spark.pipelines.queues import Queues, count_partitions
from rsmq.spark.pipelines.tables import Rows, collect_rows

#: The cause of a dead letter whose reason is not stored (any more), and its worker.
UNKNOWN = "(no reason stored)"

_MAX_TEXT_CHARACTERS = 200

_COLUMNS = ("queue", "reason", "exception", "worker", "died_at", "status")


def count_dead_letters(spark: SparkSession, at: Queues, queues: Sequence[str]) -> dict[str, Rows]:
    """
    Return the tables ``dead_by_cause``, ``dead_by_worker`` and ``dead_by_minute`` of a ``Report``.

    Counts the messages of the queues beside which a worker has stored a reason. The tables are
    empty if there is none.

    Args:
        spark: the session.
        at: the server and the namespaces of the queues.
        queues: the names of the queues.
    """
    found = [
        (server.make_label(name), name)
        for server in at.servers()
        for name in server.find_queues_with_reasons(queues)
    ]
    if not found:
        return {"dead_by_cause": (), "dead_by_worker": (), "dead_by_minute": ()}
    options = at.options(
        **at.select(dict.fromkeys(name for _, name in found)),
        columns=",".join((*["ns"] * at.is_several, *_COLUMNS)),
        numPartitions=count_partitions(spark),
    )
    messages = at.label_queues(spark.read.format("rsmq").options(**options).load())
    if at.is_several:  # a queue of another namespace with the same name may have no reasons
        messages = messages.where(functions.col("queue").isin([label for label, _ in found]))
    exception_type = functions.substring_index("exception", ":", 1)
    cause = functions.when(
        functions.isnotnull("exception"), functions.concat_ws(" ", exception_type, "status")
    ).otherwise(functions.coalesce("reason", functions.lit(UNKNOWN)))
    dead_letters = messages.select(
        "queue",
        functions.substring(cause, 1, _MAX_TEXT_CHARACTERS).alias("cause"),
        functions.coalesce("worker", functions.lit(UNKNOWN)).alias("worker"),
        "died_at",
        functions.substring("exception", 1, _MAX_TEXT_CHARACTERS).alias("example"),
    ).persist()
    try:
        return {
            "dead_by_cause": collect_rows(_count_by_cause(dead_letters)),
            "dead_by_worker": collect_rows(_count_by_worker(dead_letters)),
            "dead_by_minute": collect_rows(_count_by_minute(dead_letters)),
        }
    finally:
        dead_letters.unpersist()


def _count_by_cause(dead_letters: DataFrame) -> DataFrame:
    table = dead_letters.groupBy("queue", "cause").agg(
        functions.count(functions.lit(1)).alias("messages"),
        functions.min("died_at").alias("first_died"),
        functions.max("died_at").alias("last_died"),
        functions.max_by("example", "died_at").alias("example"),
    )
    return table.orderBy("queue", functions.desc("messages"), "cause")


def _count_by_worker(dead_letters: DataFrame) -> DataFrame:
    table = dead_letters.groupBy("queue", "worker").agg(
        functions.count(functions.lit(1)).alias("messages"),
        functions.max("died_at").alias("last_died"),
    )
    return table.orderBy("queue", functions.desc("messages"), "worker")


def _count_by_minute(dead_letters: DataFrame) -> DataFrame:
    minute = functions.date_trunc("minute", "died_at").alias("minute")
    table = dead_letters.where("died_at IS NOT NULL").groupBy("queue", minute, "cause")
    return table.agg(functions.count(functions.lit(1)).alias("messages")).orderBy(
        "minute", "queue", "cause"
    )
