"""
Redrive: dead letters back into queues, chosen by an SQL expression.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession, functions

from rsmq.spark.pipelines.progress import Tell, nobody
from rsmq.spark.pipelines.queues import Queues
from rsmq.spark.pipelines.streams import run, stream


@dataclass(frozen=True, slots=True)
class Redriven:
    """
    What a redrive has done.

    Attributes:
        messages: how many it sent on.
        lost: how many other consumers had taken meanwhile, of all batches but the last; those are
            not removed.
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
    tell: Tell = nobody,
) -> Redriven:
    """
    Send dead letters on as new messages, each once, to the queue that an expression names.

    Args:
        spark: the session.
        at: where the queues are.
        dead_letter_queue: where the dead letters are; all that are due now are taken.
        to: an SQL expression over the columns of messages that names a queue, such as
            ``CASE WHEN message LIKE '%timeout%' THEN 'orders' END``.
        otherwise: the queue for those for which it names none, or none that there is.
        checkpoint: where Spark keeps how far it is: one dead-letter queue, one checkpoint.
        batch: how many messages a batch has at most.
        tell: is told the progress.

    Raises:
        QueueNotFound: one of the two queues is missing.
    """
    server = at.server()
    for name in (dead_letter_queue, otherwise):
        server.require(name)
    there = [name for name in server.rsmq.list_queues() if name != dead_letter_queue]
    # Tests of text need text, and what is sent on are the bytes as they are.
    frame = stream(
        spark, at, dead_letter_queue, includeRaw=True, maxMessagesPerTrigger=batch
    ).withColumn("chosen", functions.expr(f"CAST(({to}) AS STRING)"))
    target = functions.when(functions.col("chosen").isin(there), functions.col("chosen"))
    sent = frame.select(
        functions.col("raw").alias("message"),
        functions.coalesce(target, functions.lit(otherwise)).alias("queue"),
    )
    writer = (
        sent.writeStream.format("rsmq")
        .options(**at.options(delivery="exactly-once", enforceMaxSize=False))
        .option("checkpointLocation", checkpoint)
    )
    count = run("redrive", writer, follow=False, tell=tell)
    return Redriven(count.messages, count.lost)
