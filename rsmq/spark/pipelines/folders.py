"""
The output folders of streams, on any file system that Spark supports.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from rsmq.errors import InvalidOption

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
    last = max(_list_batch_numbers(spark, f"{path}/{_SINK_LOG}"), default=-1)
    if last < 0 and _list_data(spark, path):
        raise InvalidOption(
            "path",
            f"{path} has files that no stream wrote, as those of archive with keep; readers of the "
            "stream's output would not see them. Give another folder.",
            value=path,
        )
    if last > max(_list_batch_numbers(spark, f"{checkpoint}/offsets"), default=-1):
        raise InvalidOption(
            "checkpoint",
            f"{path} has batches which {checkpoint} does not have: it belongs to another run, "
            "or is older than the folder. Spark would leave out new messages. Restore the "
            "newest checkpoint of the folder, or give another folder.",
            value=checkpoint,
        )
    if last < max(_list_batch_numbers(spark, f"{checkpoint}/commits"), default=-1):
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


def _list_batch_numbers(spark: SparkSession, path: str) -> list[int]:
    stems = [name.removesuffix(".compact") for name in list_names(spark, path)]
    return [int(stem) for stem in stems if stem.isdigit()]
