"""
The job redrive: sends dead letters to queues that an SQL expression names.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession, functions

from rsmq.spark.pipelines.progress import ProgressCallback, ignore_progress
from rsmq.spark.pipelines.queues import Queues
from rsmq.spark.pipelines.streams import read_stream, run_stream


@dataclass(frozen=True, slots=True)
class Redriven:
    """
    The result of a redrive.

    Attributes:
        messages: how many dead letters it sent.
        lost: how many messages other consumers had received meanwhile, in all batches but the
            last; these are not deleted from the queue.
    """

    messages: int
    lost: int


def redrive(
    spark: SparkSession,
    at: Queues,
    dead_letter_queue: str,
    to: str,
    otherwise: str,
    *,
    checkpoint: str,
    batch: int = 100_000,
    tell: ProgressCallback = ignore_progress,
) -> Redriven:
    """
    Send dead letters as new messages to queues that an expression names, each exactly once.

    Args:
        spark: the session.
        at: the server and the namespace of the queues.
        dead_letter_queue: the queue of the dead letters; all that are visible now are sent.
        to: an SQL expression over the columns of messages that names a queue, such as
            ``CASE WHEN message LIKE '%timeout%' THEN 'orders' END``.
        otherwise: the queue of the dead letters for which the expression is null or names a queue
            that does not exist, or the dead-letter queue itself.
        checkpoint: the folder where Spark stores its progress. A dead-letter queue must always
            have the same checkpoint.
        batch: the most messages of a batch.
        tell: a function that is called with each ``Progress``.

    Raises:
        QueueNotFound: ``dead_letter_queue`` or ``otherwise`` does not exist.
    """
    server = at.server()
    for name in (dead_letter_queue, otherwise):
        server.require(name)
    possible = [name for name in server.rsmq.list_queues() if name != dead_letter_queue]
    # The expression needs the message as text; the bytes of ``raw`` are sent unchanged.
    frame = read_stream(
        spark, at, dead_letter_queue, includeRaw=True, maxMessagesPerTrigger=batch
    ).withColumn("chosen", functions.expr(f"CAST(({to}) AS STRING)"))
    target = functions.when(functions.col("chosen").isin(possible), functions.col("chosen"))
    sent = frame.select(
        functions.col("raw").alias("message"),
        functions.coalesce(target, functions.lit(otherwise)).alias("queue"),
    )
    writer = (
        sent.writeStream.format("rsmq")
        .options(**at.options(delivery="exactly-once", enforceMaxSize=False))
        .option("checkpointLocation", checkpoint)
    )
    count = run_stream("redrive", at, writer, follow=False, report_progress=tell)
    return Redriven(count.messages, count.lost)
