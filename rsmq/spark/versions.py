"""
The interface of PySpark that only later versions than 4.0 have.

Frames need 4.0, the stream sink 4.1, and a stream that starts behind an offset 4.2. On an earlier
version the names of later ones stand for classes of the same methods, so that modules can be
imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyspark
from pyspark.sql import datasource

from rsmq.errors import NotPossible

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
    from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

    HAS_STREAM_SINK = HAS_FILTERS = HAS_START = True
else:
    HAS_STREAM_SINK = hasattr(datasource, "DataSourceStreamArrowWriter")
    #: Whether Spark passes filters to a frame.
    HAS_FILTERS = hasattr(datasource, "Filter")
    DataSourceStreamArrowWriter = getattr(
        datasource, "DataSourceStreamArrowWriter", datasource.DataSourceStreamWriter
    )
    try:
        from pyspark.sql.streaming.datasource import (
            ReadLimit,
            ReadMaxRows,
            SupportsTriggerAvailableNow,
        )

        #: Whether Spark tells a stream the offset behind which the next batch starts.
        HAS_START = True
    except ImportError:
        HAS_START = False

        class ReadLimit:
            """A limit of a batch."""

        class ReadMaxRows(ReadLimit):
            """A limit of messages."""

            def __init__(self, max_rows: int) -> None:
                self.max_rows = max_rows

        class SupportsTriggerAvailableNow:
            """A stream that can end; before PySpark 4.2, Spark does not ask one in Python."""


__all__ = [
    "HAS_FILTERS",
    "HAS_START",
    "HAS_STREAM_SINK",
    "DataSourceStreamArrowWriter",
    "ReadLimit",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
    "make_newer_needed",
]


def make_newer_needed(what: str, version: str, remedy: str) -> NotPossible:
    """
    Return the error of what the installed PySpark can't do.

    Args:
        what: what was asked for.
        version: the first version of PySpark that can do it.
        remedy: what to do with the present one.
    """
    return NotPossible(
        f"{what} needs PySpark {version} or later, and this is PySpark {pyspark.__version__}",
        value=pyspark.__version__,
        hint=remedy,
    )
