"""
Drain: all visible messages of queues, into files or nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession, functions

from rsmq.errors import InvalidOption
from rsmq.spark.pipelines.folders import require_same_checkpoint
from rsmq.spark.pipelines.progress import Tell, nobody
from rsmq.spark.pipelines.queues import Queues
from rsmq.spark.pipelines.streams import run, stream

KINDS = ("json", "csv", "parquet", "text", "none")


@dataclass(frozen=True, slots=True)
class Drained:
    """
    What a drain has done.

    Attributes:
        messages: how many it took out.
        lost: how many other consumers had taken meanwhile, of all batches but the last; those are
            not removed.
        path: where they are; None for nowhere.
    """

    messages: int
    lost: int
    path: str | None


def drain(
    spark: SparkSession,
    source: Queues,
    queues: str | Sequence[str],
    path: str | None,
    *,
    checkpoint: str | None = None,
    kind: str = "json",
    batch: int = 100_000,
    tell: Tell = nobody,
) -> Drained:
    """
    Take out what is due when this begins, and end; hidden messages stay.

    Args:
        spark: the session.
        source: where the queues are.
        queues: one name or several.
        path: the folder for the files; None with kind ``none``.
        checkpoint: where Spark keeps how far it is; by default ``_checkpoint`` in the folder.
        kind: ``parquet`` (bodies as bytes); ``json`` or ``csv`` (bodies as text, and those that are
            no UTF-8 also as base64 in ``raw``); ``text`` (bodies only, what is not UTF-8 as
            U+FFFD); or ``none``: they are removed for good.
        batch: how many messages a batch has at most.
        tell: is told the progress.

    Raises:
        InvalidOption: kind is unknown, or does not go with the path; or what the folder has does
            not go with this run.
    """
    if kind not in KINDS:
        raise InvalidOption("kind", f"is one of {', '.join(KINDS)}; got {kind!r}.", value=kind)
    if (path is None) != (kind == "none"):
        raise InvalidOption("path", "goes with every kind but none.", value=path)
    checkpoint = checkpoint or (path and f"{path}/_checkpoint")
    if checkpoint is None:
        raise InvalidOption("checkpoint", "is where Spark keeps how far it is; give a folder.")
    if path is not None:
        require_same_checkpoint(spark, path, checkpoint)
    body = {"bodyType": "binary"} if kind == "parquet" else {"includeRaw": kind in ("json", "csv")}
    frame = stream(spark, source, queues, maxMessagesPerTrigger=batch, **body).drop("visible_at")
    if kind == "text":
        frame = frame.select("message")
    elif kind in ("json", "csv"):
        odd = functions.col("message").contains("\ufffd")
        frame = frame.withColumn("raw", functions.when(odd, functions.base64("raw")))
    writer = frame.writeStream.format("noop" if path is None else kind)
    if path is not None:
        writer = writer.option("path", path)
    writer = writer.option("checkpointLocation", checkpoint)
    count = run("drain", writer, follow=False, tell=tell)
    return Drained(count.messages, count.lost, path)
