"""
The job archive: moves messages into Parquet files, one folder for each day.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, Observation, SparkSession, functions

from rsmq.spark.pipelines.folders import refuse_stream_folder, require_same_stream
from rsmq.spark.pipelines.progress import JobProgress, ProgressCallback, ignore_progress
from rsmq.spark.pipelines.queues import Queues, count_partitions, join_names, name_kept_columns
from rsmq.spark.pipelines.streams import read_stream, run_stream
from rsmq.spark.read.record_batch import STORED_HINT, STORED_TEXT


@dataclass(frozen=True, slots=True)
class Archived:
    """
    The result of an archive.

    Attributes:
        messages: how many messages it wrote.
        lost: how many messages other consumers had received meanwhile, in all batches but the
            last; these are not deleted from the queue.
        path: the folder of the archive.
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
    tell: ProgressCallback = ignore_progress,
) -> Archived:
    """
    Move messages to Parquet, in folders ``date=2026-01-31`` by the day when they were sent (UTC).

    The day of a message whose sent time is unknown is that of its first receive, else the present.

    Readers that use Spark's ``_spark_metadata``, as ``spark.read.parquet(path)`` does, see each
    message exactly once. It is deleted from its queue after it was archived. Other readers may see
    the rows of a batch twice if a crash interrupted it.

    Args:
        spark: the session.
        source: the server and the namespaces of the queues. Of several, the files have a column
            ``ns``.
        queues: the name of one queue, or several names.
        path: the folder; a run adds to it.
        checkpoint: the folder where Spark stores its progress; by default ``_checkpoint`` in the
            folder of the archive. An archive must always have the same checkpoint.
        follow: True waits for new messages and runs until it is stopped.
        keep: True copies all messages, including hidden ones, and does not change the queues; a
            second run copies them again.
        text: True stores messages as text; bytes that are not UTF-8 become U+FFFD.
        batch: the most messages of a batch.
        tell: a function that is called with each ``JobProgress``.

    Raises:
        InvalidOption: the folder has batches of another checkpoint, or files that do not fit
            this kind of run.
    """
    body = "string" if text else "binary"
    if keep:
        refuse_stream_folder(spark, path)
        options = source.options(
            subscribe=join_names(queues),
            columns=name_kept_columns(source),
            bodyType=body,
            snapshot="exact",
            numPartitions=count_partitions(spark),
        )
        frame = spark.read.format("rsmq").options(**options).load()
        tell(JobProgress("archive", "copying"))
        messages = Observation()  # counted while they are copied: a second read could differ
        number = functions.count(functions.lit(1)).alias("number")
        copy = _refuse_references(_add_date(frame)).observe(messages, number).write
        copy.partitionBy("date").mode("append").parquet(path)
        return Archived(int(messages.get["number"]), 0, path)
    checkpoint = checkpoint or f"{path}/_checkpoint"
    require_same_stream(spark, path, checkpoint, "parquet")
    frame = read_stream(
        spark,
        source,
        queues,
        columns=name_kept_columns(source),
        bodyType=body,
        maxMessagesPerTrigger=batch,
    )
    writer = (
        _add_date(frame)
        .drop("visible_at")  # always null in a stream
        .writeStream.format("parquet")
        .partitionBy("date")
        .option("path", path)
        .option("checkpointLocation", checkpoint)
    )
    count = run_stream("archive", source, writer, follow=follow, report_progress=tell)
    return Archived(count.messages, count.lost, path)


def _add_date(frame: DataFrame) -> DataFrame:
    time = functions.coalesce("sent", "first_received", functions.current_timestamp())
    in_utc = functions.to_utc_timestamp(time, functions.current_timezone())
    return frame.withColumn("date", functions.to_date(in_utc))


def _refuse_references(frame: DataFrame) -> DataFrame:
    """Let the job fail at a message whose body is stored elsewhere."""
    body = functions.col("message")
    is_reference = body.cast("string").rlike(r"\Arsmq-body/1:[^:]*\bstored=")
    failure = functions.raise_error(functions.lit(f"{STORED_TEXT}. {STORED_HINT}"))
    return frame.withColumn("message", functions.when(is_reference, failure).otherwise(body))
