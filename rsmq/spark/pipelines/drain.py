"""
The job drain: removes all visible messages from queues, into files or for good.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession, functions

from rsmq.errors import InvalidOption
from rsmq.spark.pipelines.folders import require_same_stream
from rsmq.spark.pipelines.progress import ProgressCallback, ignore_progress
from rsmq.spark.pipelines.queues import Queues, name_kept_columns
from rsmq.spark.pipelines.streams import read_stream, run_stream

KINDS = ("json", "csv", "parquet", "text", "none")


@dataclass(frozen=True, slots=True)
class Drained:
    """
    The result of a drain.

    Attributes:
        messages: how many messages it processed.
        lost: how many messages other consumers had received meanwhile, in all batches but the
            last; these are not deleted from the queue.
        path: the folder of the files; None with the kind ``none``.
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
    tell: ProgressCallback = ignore_progress,
) -> Drained:
    """
    Remove the messages that are visible when the drain starts; hidden messages stay.

    Args:
        spark: the session.
        source: the server and the namespaces of the queues. Of several, the files have a column
            ``ns``, but for those of text.
        queues: the name of one queue, or several names.
        path: the folder for the files; None with kind ``none``.
        checkpoint: the folder where Spark stores its progress; by default ``_checkpoint`` in the
            folder of the files.
        kind: the kind of the files:

            - ``parquet``: bodies as bytes;
            - ``json`` or ``csv``: bodies as text; those that are not UTF-8, or contain U+FFFD,
              also as base64 in the column ``raw``;
            - ``text``: bodies only; bytes that are not UTF-8 become U+FFFD;
            - ``none``: no files, the messages are removed for good.
        batch: the most messages of a batch.
        tell: a function that is called with each ``JobProgress``.

    Raises:
        InvalidOption: the kind is unknown, or does not fit the path; there is no checkpoint; or
            the folder has batches of another checkpoint, files of another kind, or files that no
            stream wrote.
    """
    if kind not in KINDS:
        raise InvalidOption("kind", f"is one of {', '.join(KINDS)}; got {kind!r}.", value=kind)
    if (path is None) != (kind == "none"):
        rule = "is where the files go; give a folder, or the kind none, which removes the messages."
        if path is not None:
            rule = "does not go with the kind none, which writes no files. Leave it out."
        raise InvalidOption("path", rule, value=path)
    checkpoint = checkpoint or (path and f"{path}/_checkpoint")
    if checkpoint is None:
        raise InvalidOption("checkpoint", "is where Spark keeps how far it is; give a folder.")
    if path is not None:
        require_same_stream(spark, path, checkpoint, kind)
    frame = read_stream(
        spark,
        source,
        queues,
        columns=name_kept_columns(source, with_raw=kind in ("json", "csv")),
        bodyType="binary" if kind == "parquet" else "string",
        maxMessagesPerTrigger=batch,
    ).drop("visible_at")
    if kind == "text":
        frame = frame.select("message")
    elif kind in ("json", "csv"):
        is_lossy = functions.col("message").contains("\ufffd")
        frame = frame.withColumn("raw", functions.when(is_lossy, functions.base64("raw")))
    writer = frame.writeStream.format("noop" if path is None else kind)
    if path is not None:
        writer = writer.option("path", path)
    writer = writer.option("checkpointLocation", checkpoint)
    count = run_stream("drain", source, writer, follow=False, report_progress=tell)
    return Drained(count.messages, count.lost, path)
