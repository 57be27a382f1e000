"""
Queues as sources and sinks of Apache Spark, through PySpark's own data source interface.

``spark.read.format("rsmq")`` works without a call where this package is installed; ``register``
makes it known to a session where it is not found by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rsmq.errors import BatchLost, CheckpointSetBack, InvalidOption, MissingExtra

try:
    from rsmq.spark.source import RsmqDataSource
except ImportError as error:  # also where PySpark is older: what is asked for is new in 4.2
    raise MissingExtra("spark", "rsmq.spark (PySpark 4.2 or later, and pyarrow)") from error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["BatchLost", "CheckpointSetBack", "InvalidOption", "RsmqDataSource", "register"]


def register(spark: SparkSession | Any) -> None:
    """
    Make ``format("rsmq")`` known to a session.

    Needed only where Spark does not find it by itself: over Spark Connect, or when another
    package named ``pyspark_...`` on the path fails to import, which keeps Spark from finding any.

    Args:
        spark: the session.
    """
    spark.dataSource.register(RsmqDataSource)
