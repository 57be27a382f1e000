"""
Queues as sources and sinks of Apache Spark, through PySpark's own data source interface.

If this package is installed, Spark usually finds ``format("rsmq")`` itself. ``register`` adds it to
a session that does not.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rsmq.errors import BatchLost, CheckpointSetBack, InvalidOption, MissingExtra, NewerVersion

try:
    from rsmq.spark.source import RsmqDataSource

    if find_spec("pyarrow") is None:
        raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")
except ImportError as error:  # also if PySpark is older than 4.0
    raise MissingExtra("spark", "rsmq.spark (PySpark 4.0 or later, and pyarrow)") from error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rsmq.spark.stream.acknowledgement import AcknowledgeListener
    from rsmq.spark.stream.stream_metrics import StreamMetrics

__all__ = [
    "AcknowledgeListener",
    "BatchLost",
    "CheckpointSetBack",
    "InvalidOption",
    "NewerVersion",
    "RsmqDataSource",
    "StreamMetrics",
    "register",
]


#: The listeners and their modules. Only the driver needs them, and their imports take time.
_LISTENERS = {"AcknowledgeListener": "acknowledgement", "StreamMetrics": "stream_metrics"}


def __getattr__(name: str) -> object:
    if name in _LISTENERS:
        return getattr(import_module(f"rsmq.spark.stream.{_LISTENERS[name]}"), name)
    raise AttributeError(f"module 'rsmq.spark' has no attribute {name!r}")


#: The variables that Spark adds to the environment of a data source when it starts a stream.
_VARIABLES_OF_STREAMS = {
    "SPARK_AUTH_SOCKET_TIMEOUT": "",
    "SPARK_BUFFER_SIZE": "",
    "SPARK_LOCAL_DIRS": "",
    "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
}


def register(spark: SparkSession | Any) -> None:
    """
    Register ``format("rsmq")`` in a session.

    Needed if Spark does not find it itself: over Spark Connect, or if the import of another package
    named ``pyspark_...`` fails, because Spark then finds none of them. Useful if an application
    starts several streams: it keeps two that start at the same moment from breaking all tasks.
    Needed too if this package comes by ``spark-submit --py-files``.

    Args:
        spark: the session.
    """
    context = getattr(spark, "sparkContext", None)
    if context is None:  # Spark Connect
        _register(spark)
        return
    # All streams of a data source have one HashMap for their environment, and each adds these
    # variables to it without a lock. Here they are added before: later only values are replaced.
    own = context.environment
    context.environment = {**_VARIABLES_OF_STREAMS, **own, **_path_of_archive(own)}
    try:
        _register(spark)
    finally:
        context.environment = own


def _path_of_archive(environment: Mapping[str, str]) -> dict[str, str]:
    """
    Return the variable by which streams find this package in an archive of ``--py-files``.

    Spark does not pass such archives to the process on the driver that plans batches of streams.
    """
    root = Path(__file__).parents[2]
    paths = [environment.get("PYTHONPATH"), str(root)]
    return {"PYTHONPATH": os.pathsep.join(filter(None, paths))} if root.is_file() else {}


def _register(spark: Any) -> None:
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - only the driver needs it

    try:
        spark.dataSource.register(RsmqDataSource)
    except AnalysisException as error:  # PySpark 4.0 refuses a second time
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
