"""
Output folders of streams, on any file system that Spark supports.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from rsmq.errors import InvalidOption

#: Where Spark's file sink keeps which files count.
_LOG = "_spark_metadata"


def require_same_checkpoint(spark: SparkSession, path: str, checkpoint: str) -> None:
    """
    See that a stream goes on in a folder where it stopped.

    The file sink leaves out batches whose numbers the folder has already: with another checkpoint,
    which counts from 0 again, their messages would be lost.

    Raises:
        InvalidOption: the folder has batches that the checkpoint does not know, or files that a
            stream did not write, which its readers would not see.
    """
    written = _numbers(spark, f"{path}/{_LOG}")
    if written:
        logged = max(_numbers(spark, f"{checkpoint}/offsets"), default=-1)
        if max(written) > logged:
            raise InvalidOption(
                "checkpoint",
                f"{path} has batches of another run, which {checkpoint} does not know: what comes "
                "would be left out. Give the checkpoint of that run, or another folder.",
                value=checkpoint,
            )
    elif any(not name.startswith(("_", ".")) for name in names_in(spark, path)):
        raise InvalidOption(
            "path",
            f"{path} has files that no stream wrote; readers of the archive would not see them. "
            "Give another folder.",
            value=path,
        )


def refuse_stream_folder(spark: SparkSession, path: str) -> None:
    """
    See that readers of a folder will see files that no stream wrote.

    Raises:
        InvalidOption: a stream has written to it.
    """
    if _LOG in names_in(spark, path):
        raise InvalidOption(
            "path",
            f"{path} is the archive of a stream: its readers would not see a copy beside it. Give "
            "another folder.",
            value=path,
        )


def names_in(spark: SparkSession, path: str) -> list[str]:
    """The names of what is in a folder; none if there is no such folder."""
    jvm: Any = spark._jvm  # noqa: SLF001 - Hadoop's file systems have no other way in
    place = jvm.org.apache.hadoop.fs.Path(path)
    system = place.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001
    if not system.exists(place):
        return []
    return [str(status.getPath().getName()) for status in system.listStatus(place)]


def _numbers(spark: SparkSession, path: str) -> list[int]:
    stems = [name.removesuffix(".compact") for name in names_in(spark, path)]
    return [int(stem) for stem in stems if stem.isdigit()]
