"""
The job redrive: sends dead letters to queues that an SQL expression names.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, functions

from rsmq.errors import InvalidOption
from rsmq.spark.pipelines.progress import ProgressCallback, ignore_progress
from rsmq.spark.pipelines.queues import GROUP_COLUMNS, Queues, name_kept_columns, refuse_loop
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

    The messages are in their groups, and have their limit keys.

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
        tell: a function that is called with each ``JobProgress``.

    Raises:
        InvalidOption: ``otherwise`` is the dead-letter queue itself, or ``to`` is not an
            expression.
        QueueNotFound: ``dead_letter_queue`` or ``otherwise`` does not exist.
    """
    at.require_one_namespace()
    refuse_loop(at, dead_letter_queue, at, otherwise, option="otherwise")
    at.require((dead_letter_queue, otherwise))
    possible = [name for name in at.list_names() if name != dead_letter_queue]
    # The expression needs the message as text; the bytes of ``raw`` are sent unchanged.
    columns = name_kept_columns(at, with_raw=True)
    frame = read_stream(spark, at, dead_letter_queue, columns=columns, maxMessagesPerTrigger=batch)
    frame = _with_chosen(frame, to)
    target = functions.when(functions.col("chosen").isin(possible), functions.col("chosen"))
    queue = functions.coalesce(target, functions.lit(otherwise))
    message = functions.col("raw").alias("message")
    sent = frame.select(message, queue.alias("queue"), *GROUP_COLUMNS)
    options = at.options(delivery="exactly-once", enforceMaxSize=False)
    writer = (
        sent.writeStream.format("rsmq").options(**options).option("checkpointLocation", checkpoint)
    )
    done = run_stream("redrive", at, writer, follow=False, report_progress=tell)
    return Redriven(done.messages, done.lost)


def _with_chosen(frame: DataFrame, to: str) -> DataFrame:
    """Return a frame of messages with the queue that an expression chooses for each."""
    try:
        chosen = frame.withColumn("chosen", functions.expr(f"CAST(({to}) AS STRING)"))
        chosen.schema  # noqa: B018 - Spark Connect looks at the expression only now
    except AnalysisException as error:
        raise InvalidOption(
            "to",
            f"{to} is not an SQL expression over {', '.join(frame.columns)}. The name of a queue "
            "is in single quotes, as in 'orders'.",
            value=to,
        ) from error
    return chosen
