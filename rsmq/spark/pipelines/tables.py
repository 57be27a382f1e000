"""
The tables of a report as rows in this process.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, functions
from pyspark.sql.types import TimestampType

Rows = tuple[dict[str, Any], ...]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def collect_rows(table: DataFrame) -> Rows:
    """Return the rows of a small frame; times are UTC, without a time zone."""
    times = [field.name for field in table.schema if isinstance(field.dataType, TimestampType)]
    if times:  # Spark Connect refuses to replace no column
        # PySpark would return times in the time zone of this process.
        table = table.withColumns({name: functions.unix_micros(name) for name in times})
    return tuple({**row.asDict(), **_to_times(row, times)} for row in table.collect())


def _to_times(row: Any, names: list[str]) -> dict[str, datetime | None]:
    return {
        name: None
        if row[name] is None
        else (_EPOCH + timedelta(microseconds=row[name])).replace(tzinfo=None)
        for name in names
    }
