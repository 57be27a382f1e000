"""
The jobs that move messages into files, and send those of files: archive, drain and replay.

The files can be on any file system that Spark supports.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession, functions
from pyspark.sql.types import BinaryType, StringType

from rsmq.errors import InvalidOption
from rsmq.spark.connections import get_server
from rsmq.spark.pipelines.queues import (
    GROUP_COLUMNS,
    Queues,
    count_rows,
    join_names,
    name_kept_columns,
    read_frame,
)
from rsmq.spark.pipelines.streams import (
    JobProgress,
    ProgressCallback,
    StreamResult,
    ignore_progress,
    read_stream,
    run_stream,
)
from rsmq.spark.read.record_batch import STORED_HINT, STORED_TEXT
from rsmq.spark.read.sent_columns import SENT_COLUMNS
from rsmq.spark.write.sink import is_written
from rsmq.wire.ids import GROUP_MARK

#: The folder in which Spark's file sink lists the files that it has committed, by batch.
_SINK_LOG = "_spark_metadata"

#: The ends of the names of files, by their kind.
_ENDINGS = {"parquet": ".parquet", "json": ".json", "csv": ".csv", "text": ".txt"}


def require_same_stream(spark: SparkSession, path: str, checkpoint: str, kind: str) -> None:
    """
    Check that a folder, a checkpoint and a kind of files belong to the same stream.

    The file sink skips batches whose numbers the folder has already. With another checkpoint, which
    counts from 0 again, the messages of these batches would be lost. A folder that lacks batches of
    its checkpoint can't be read.

    Args:
        spark: the session.
        path: the folder.
        checkpoint: the folder of the checkpoint.
        kind: the kind of the files, as Spark names it.

    Raises:
        InvalidOption: the folder has batches that the checkpoint does not have, or lacks batches
            that it has; or it has files of another kind, or files that no stream wrote: readers of
            the stream's output would not see these files.
    """
    last = _find_last_batch(spark, f"{path}/{_SINK_LOG}")
    if last < 0 and _list_data(spark, path):
        raise InvalidOption(
            "path",
            f"{path} has files that no stream wrote, as those of archive with keep; readers of the "
            "stream's output would not see them. Give another folder.",
            value=path,
        )
    if last > _find_last_batch(spark, f"{checkpoint}/offsets"):
        raise InvalidOption(
            "checkpoint",
            f"{path} has batches which {checkpoint} does not have: it belongs to another run, "
            "or is older than the folder. Spark would leave out new messages. Restore the "
            "newest checkpoint of the folder, or give another folder.",
            value=checkpoint,
        )
    if last < _find_last_batch(spark, f"{checkpoint}/commits"):
        raise InvalidOption(
            "checkpoint",
            f"{path} lacks batches which {checkpoint} has: it belongs to another folder, which "
            "the checkpoint must keep. Readers could not read this one. Give a new checkpoint.",
            value=checkpoint,
        )
    other = _find_other_kind(spark, path, _ENDINGS[kind])
    if other is not None:
        raise InvalidOption(
            "path",
            f"{path} has files of another kind, as {other}: no reader could read all of them. Give "
            "another folder.",
            value=path,
        )


def _find_other_kind(spark: SparkSession, path: str, ending: str) -> str | None:
    """Return the name of a file that does not have this ending; None if there is none."""
    names = _list_data(spark, path)
    folders = [name for name in names if "=" in name]  # of an archive: one for each day
    if folders:
        names = [name for name in names if name not in folders]
        names += _list_data(spark, f"{path}/{folders[0]}")
    return next((name for name in names if not name.endswith(ending)), None)


def _list_data(spark: SparkSession, path: str) -> list[str]:
    return [name for name in list_names(spark, path) if not name.startswith(("_", "."))]


def refuse_stream_folder(spark: SparkSession, path: str) -> None:
    """
    Check that no stream has written to a folder, so that readers see files of other origin.

    Raises:
        InvalidOption: a stream has written to the folder.
    """
    if _SINK_LOG in list_names(spark, path):
        raise InvalidOption(
            "path",
            f"{path} is the archive of a stream: its readers would not see a copy beside it. Give "
            "another folder.",
            value=path,
        )


def list_names(spark: SparkSession, path: str) -> list[str]:
    """
    Return the names of files and folders in a folder; an empty list if it does not exist.

    Over Spark Connect, which does not list folders, a task lists it. There, a path without a scheme
    is one of the machines of executors.

    Raises:
        InvalidOption: over Spark Connect, the file system is not one that pyarrow supports.
    """
    if getattr(spark, "_jsparkSession", None) is None:
        return _list_names_in_a_task(spark, path)
    jvm: Any = spark._jvm  # noqa: SLF001 - the only access to Hadoop's file systems
    folder = jvm.org.apache.hadoop.fs.Path(path)
    file_system = folder.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001
    if not file_system.exists(folder):
        return []
    return [str(status.getPath().getName()) for status in file_system.listStatus(folder)]


def _list_names_in_a_task(spark: SparkSession, path: str) -> list[str]:
    frame = spark.range(1, numPartitions=1).mapInArrow(
        partial(_read_names, path), "name STRING, error STRING"
    )
    rows = frame.collect()
    for row in rows:
        if row["error"] is not None:
            raise InvalidOption(
                "path",
                f"{path} can't be listed over Spark Connect: {row['error']}. Run the job with "
                "spark-submit, or give another folder.",
                value=path,
            )
    return [row["name"] for row in rows]


def _read_names(path: str, batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the names in a folder, or the error, as a record batch; runs in the task."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import, and only the task needs it
    from pyarrow import fs  # noqa: PLC0415 - as above

    list(batches)
    names: list[str | None] = []
    errors: list[str | None] = []
    try:
        system, folder = fs.LocalFileSystem(), path
        if ":" in path:
            system, folder = fs.FileSystem.from_uri(path)
        found = system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        names = [each.base_name for each in found]
        errors = [None] * len(names)
    except (pa.ArrowException, OSError) as error:
        names, errors = [None], [str(error)]
    columns = {"name": pa.array(names, pa.string()), "error": pa.array(errors, pa.string())}
    yield pa.RecordBatch.from_pydict(columns)


def _find_last_batch(spark: SparkSession, path: str) -> int:
    """Return the highest number among the names of a folder; -1 if there is none."""
    stems = [name.removesuffix(".compact") for name in list_names(spark, path)]
    return max((int(stem) for stem in stems if stem.isdigit()), default=-1)


def _observe_count(frame: DataFrame) -> tuple[DataFrame, Observation]:
    """Return a frame that counts its rows while they are written: a second read could differ."""
    counted = Observation()
    return frame.observe(counted, count_rows("number")), counted


@dataclass(frozen=True, slots=True)
class Archived(StreamResult):
    """
    The result of an archive.

    Attributes:
        path: the folder of the archive.
    """

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
    kept = {"columns": name_kept_columns(source), "bodyType": "string" if text else "binary"}
    if keep:
        refuse_stream_folder(spark, path)
        names = join_names(queues)
        frame = read_frame(spark, source, subscribe=names, snapshot="exact", **kept)
        tell(JobProgress("archive", "copying"))
        frame, counted = _observe_count(_refuse_references(_add_date(frame)))
        frame.write.partitionBy("date").mode("append").parquet(path)
        return Archived(int(counted.get["number"]), 0, path)
    checkpoint = checkpoint or f"{path}/_checkpoint"
    require_same_stream(spark, path, checkpoint, "parquet")
    frame = _add_date(read_stream(spark, source, queues, batch, **kept))
    frame = frame.drop("visible_at")  # always null in a stream
    writer = frame.writeStream.format("parquet").partitionBy("date")
    writer = writer.options(path=path, checkpointLocation=checkpoint)
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


KINDS = ("json", "csv", "parquet", "text", "none")


@dataclass(frozen=True, slots=True)
class Drained(StreamResult):
    """
    The result of a drain.

    Attributes:
        path: the folder of the files; None with the kind ``none``.
    """

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
    columns = name_kept_columns(source, with_raw=kind in ("json", "csv"))
    body = "binary" if kind == "parquet" else "string"
    frame = read_stream(spark, source, queues, batch, columns=columns, bodyType=body)
    frame = frame.drop("visible_at")
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


_RESTORED_COLUMNS = ("id", "receive_count", "first_received", "visible_at", *SENT_COLUMNS)


@dataclass(frozen=True, slots=True)
class Replayed:
    """
    The result of a replay.

    Attributes:
        messages: how many rows it wrote; with ``restore``, some may have been in the queue already.
        done_before: whether a replay with the same ``write_id`` was done before, so that this one
            did nothing.
    """

    messages: int
    done_before: bool = False


def replay(
    spark: SparkSession,
    path: str,
    target: Queues,
    queue: str | None = None,
    *,
    kind: str = "parquet",
    date: str | None = None,
    where: str | None = None,
    restore: bool = False,
    create: bool = False,
    write_id: str | None = None,
    tell: ProgressCallback = ignore_progress,
) -> Replayed:
    """
    Send rows as messages, in the order of their columns ``sent`` and ``id``.

    The rows are staged first, and published when all are staged, so a task that fails sends
    nothing. If a replay is killed while it publishes, another one with the same ``write_id``
    completes it.

    Args:
        spark: the session.
        path: an archive, or other files. The column ``message`` is the body; without this column
            the complete row is the body, as JSON.
        target: the server and the namespace of the queues.
        queue: the queue; None reads it from the column ``queue`` of each row.
        kind: ``parquet`` or ``json`` (one row for each line).
        date: the day of an archive, as in 2026-01-31.
        where: a condition in SQL that selects rows.
        restore: True keeps ids, times, counters, groups, limit keys, expiry and retries, and adds
            only messages that are not in the queue; False sends new messages, which have their
            groups and limit keys, and the expiry and the retries of their queue.
        create: True creates missing queues.
        write_id: a name under which this replay is done only once, however often it is run.
        tell: a function that is called with each ``JobProgress``.

    Raises:
        InvalidOption: the kind is unknown, the date is not a day, or a column is missing.
    """
    target.require_one_namespace()
    if date is not None:
        _check_day(date)
    if kind not in ("parquet", "json"):
        raise InvalidOption("kind", f"is parquet or json; got {kind!r}.", value=kind)
    if write_id is not None and is_written(get_server(target.connection()), write_id, 0):
        return Replayed(0, done_before=True)
    # Files of earlier versions lack columns.
    rows = spark.read.format(kind).option("mergeSchema", kind == "parquet").load(path)
    if date is not None:
        if "date" not in rows.columns:
            raise InvalidOption(
                "date", f"{path} is not an archive: it has no column date.", value=date
            )
        rows = rows.where(functions.col("date") == functions.lit(date).cast("date"))
    if where is not None:
        rows = rows.where(where)
    messages = _select_messages(rows, has_queue_column=queue is None, restore=restore)
    frame, counted = _observe_count(messages)
    options = target.options(
        queue=queue,
        delivery="exactly-once",
        restore=restore,
        createQueue=create,
        writeId=write_id,
        messageFormat=None if "message" in rows.columns else "json",
        queueColumn="queue" if queue is None else None,
    )
    tell(JobProgress("replay", "sending"))
    frame.write.format("rsmq").options(**options).mode("append").save()
    return Replayed(int(counted.get["number"]))


def _check_day(date: str) -> None:
    try:
        dt.date.fromisoformat(date)
    except ValueError:
        rule = f"is a day such as 2026-01-31; got {date!r}."
        raise InvalidOption("date", rule, value=date) from None


def _select_messages(rows: DataFrame, *, has_queue_column: bool, restore: bool) -> DataFrame:
    if "message" not in rows.columns:
        return rows
    order = [name for name in ("sent", "id") if name in rows.columns]
    if order:
        rows = rows.orderBy(*order)
    if not isinstance(rows.schema["message"].dataType, StringType | BinaryType):
        rows = rows.withColumn("message", functions.to_json("message"))
    columns = ["message", *["queue"] * has_queue_column]
    if restore:
        rows = _without_receive_of_archive(rows)
        columns += [name for name in _RESTORED_COLUMNS if name in rows.columns]
        return rows.select(*columns)
    # In rows of other programs these columns are no groups, and the ids have no mark.
    has_group = functions.col("id").endswith(GROUP_MARK.decode()) if "id" in rows.columns else None
    groups = [
        functions.when(has_group, functions.col(name)).cast(SENT_COLUMNS[name]).alias(name)
        for name in GROUP_COLUMNS
        if has_group is not None and name in rows.columns
    ]
    return rows.select(*columns, *groups)


def _without_receive_of_archive(rows: DataFrame) -> DataFrame:
    """
    Subtract the receive by which an archive has moved messages with groups.

    A restored message that was received does not wait for others of its group, as it may be in
    flight. Only archives that moved messages have no column ``visible_at``.
    """
    names = {"group", "limit_key", "receive_count", "first_received"}
    if "visible_at" in rows.columns or not names.issubset(rows.columns):
        return rows
    has_group = functions.expr("`group` IS NOT NULL OR limit_key IS NOT NULL")
    count, first = functions.col("receive_count"), functions.col("first_received")
    return rows.withColumns(
        {
            "receive_count": functions.when(has_group & (count > 0), count - 1).otherwise(count),
            "first_received": functions.when(~has_group | (count > 1), first),
        }
    )
