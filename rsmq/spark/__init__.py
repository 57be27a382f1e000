"""
Queues as sources and sinks of Apache Spark, through PySpark's own data source interface.

If this package is installed, Spark usually finds ``format("rsmq")`` itself. ``register`` adds it to
a session that does not.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rsmq.errors import (
    BatchLost,
    CellFailed,
    CheckpointSetBack,
    InvalidOption,
    MissingExtra,
    NewerVersion,
)

try:
    from rsmq.spark.source import RsmqDataSource

    if find_spec("pyarrow") is None:
        raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")
except ImportError as error:  # also if PySpark is older than 4.2, which introduced the interface
    raise MissingExtra("spark", "rsmq.spark (PySpark 4.2 or later, and pyarrow)") from error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rsmq.spark.acknowledgement import AcknowledgeListener

__all__ = [
    "AcknowledgeListener",
    "BatchLost",
    "CellFailed",
    "CheckpointSetBack",
    "InvalidOption",
    "NewerVersion",
    "RsmqDataSource",
    "register",
]


def __getattr__(name: str) -> object:
    # Only the program of the driver needs the listener, and its imports take time.
    if name == "AcknowledgeListener":
        return import_module("rsmq.spark.acknowledgement").AcknowledgeListener
    raise AttributeError(f"module 'rsmq.spark' has no attribute {name!r}")


def register(spark: SparkSession | Any) -> None:
    """
    Register ``format("rsmq")`` in a session.

    Needed only if Spark does not find it itself: over Spark Connect, or if the import of another
    package named ``pyspark_...`` fails, because Spark then finds none of them.

    Args:
        spark: the session.
    """
    spark.dataSource.register(RsmqDataSource)
