"""
Archive: queues into Parquet files, one folder for each day.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, Observation, SparkSession, functions

from rsmq.spark.pipelines.folders import refuse_stream_folder, require_same_checkpoint
from rsmq.spark.pipelines.progress import Progress, Tell, nobody
from rsmq.spark.pipelines.queues import Queues, subscribed
from rsmq.spark.pipelines.streams import run, stream


@dataclass(frozen=True, slots=True)
class Archived:
    """
    What an archive has done.

    Attributes:
        messages: how many it wrote.
        lost: how many other consumers had taken meanwhile, of all batches but the last; those are
            not removed.
        path: where they are.
    """

    messages: int
    lost: int
    path: str


def archive(
    spark: SparkSession,
    source: Queues,
    queues: str | Sequence[str],
    path: str,
    *,
    checkpoint: str | None = None,
    follow: bool = False,
    keep: bool = False,
    text: bool = False,
    batch: int = 100_000,
    tell: Tell = nobody,
) -> Archived:
    """
    Move messages to Parquet, in folders ``date=2026-01-31`` by the day when they were sent (UTC).

    Each message is in the archive exactly once for readers that know Spark's ``_spark_metadata``,
    as ``spark.read.parquet(path)`` does, and removed from its queue after that; other readers may
    see the rows of a batch twice that a crash broke off.

    Args:
        spark: the session.
        source: where the queues are.
        queues: one name or several.
        path: the folder; a run adds to it.
        checkpoint: where Spark keeps how far it is; by default ``_checkpoint`` in the folder. One
            archive, one checkpoint, forever.
        follow: True goes on with what comes, until it is stopped.
        keep: True copies what there is, hidden messages too, and leaves the queues as they are; a
            second run copies it again.
        text: True stores messages as text; bytes that are no UTF-8 become U+FFFD.
        batch: how many messages a batch has at most.
        tell: is told the progress.

    Raises:
        InvalidOption: what the folder has does not go with this run.
    """
    body = "string" if text else "binary"
    if keep:
        refuse_stream_folder(spark, path)
        options = source.options(subscribe=subscribed(queues), bodyType=body)
        frame = spark.read.format("rsmq").options(**options).load()
        tell(Progress("archive", "copying"))
        messages = Observation()  # counted on their way: another look could find others
        number = functions.count(functions.lit(1)).alias("number")
        copy = _dated(frame).observe(messages, number).write
        copy.partitionBy("date").mode("append").parquet(path)
        return Archived(int(messages.get["number"]), 0, path)
    checkpoint = checkpoint or f"{path}/_checkpoint"
    require_same_checkpoint(spark, path, checkpoint)
    frame = stream(spark, source, queues, bodyType=body, maxMessagesPerTrigger=batch)
    writer = (
        _dated(frame)
        .drop("visible_at")  # of messages that are held: nothing
        .writeStream.format("parquet")
        .partitionBy("date")
        .option("path", path)
        .option("checkpointLocation", checkpoint)
    )
    count = run("archive", writer, follow=follow, tell=tell)
    return Archived(count.messages, count.lost, path)


def _dated(frame: DataFrame) -> DataFrame:
    known = functions.coalesce("sent", "first_received", functions.current_timestamp())
    in_utc = functions.to_utc_timestamp(known, functions.current_timezone())
    return frame.withColumn("date", functions.to_date(in_utc))
