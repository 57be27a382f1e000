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


def require_same_checkpoint(spark: SparkSession, path: str, checkpoint: str) -> None:
    """
    Check that a checkpoint belongs to the stream that has written to a folder.

    The file sink skips batches whose numbers the folder has already. With another checkpoint, which
    counts from 0 again, the messages of these batches would be lost.

    Raises:
        InvalidOption: the folder has batches that the checkpoint does not have, or files that no
            stream wrote: readers of the stream's output would not see these files.
    """
    written = _list_batch_numbers(spark, f"{path}/{_SINK_LOG}")
    if written:
        logged = max(_list_batch_numbers(spark, f"{checkpoint}/offsets"), default=-1)
        if max(written) > logged:
            raise InvalidOption(
                "checkpoint",
                f"{path} has batches which {checkpoint} does not have: it belongs to another run, "
                "or is older than the folder. Spark would leave out new messages. Restore the "
                "newest checkpoint of the folder, or give another folder.",
                value=checkpoint,
            )
    elif any(not name.startswith(("_", ".")) for name in list_names(spark, path)):
        raise InvalidOption(
            "path",
            f"{path} has files that no stream wrote; readers of the archive would not see them. "
            "Give another folder.",
            value=path,
        )


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
