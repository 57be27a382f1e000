"""
Report: figures of queues, read without a change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions

from rsmq.spark.pipelines.progress import Progress, Tell, nobody
from rsmq.spark.pipelines.queues import Queues, subscribed

Rows = tuple[dict[str, Any], ...]

#: Receive counts from this one on stand together.
MANY = 10


@dataclass(frozen=True, slots=True)
class Report:
    """
    What is in queues, at one moment.

    Attributes:
        queues: of each queue its depth (visible, in flight, delayed), percentiles of the age of its
            messages in seconds, the bytes of bodies in all, on average and at most.
        receive_counts: of each queue how many messages were received how often.
        by_minute: of each queue how many messages were sent in which minute (UTC).
        files: the files that were written.
    """

    queues: Rows
    receive_counts: Rows
    by_minute: Rows
    files: tuple[str, ...]


def report(
    spark: SparkSession,
    at: Queues,
    queues: str | Sequence[str] | None = None,
    *,
    path: str | None = None,
    tell: Tell = nobody,
) -> Report:
    """
    Look into queues; nothing is changed.

    Args:
        spark: the session.
        at: where the queues are.
        queues: one name or several; None takes all that are listed.
        path: a folder of this machine for the tables as Parquet and for plots as PNG; None writes
            nothing.
        tell: is told the progress.
    """
    names = at.server().rsmq.list_queues() if queues is None else subscribed(queues).split(",")
    if not names:
        return Report((), (), (), ())
    tell(Progress("report", f"reading {len(names)} queues"))
    options = at.options(subscribe=",".join(names), bodyType="binary")
    messages = spark.read.format("rsmq").options(**options).load()
    now = functions.lit(at.server().now_ms() / 1000).cast("timestamp")
    known = messages.select(
        "queue",
        "receive_count",
        functions.octet_length("message").alias("size"),
        functions.date_trunc("minute", "sent").alias("minute"),
        (now.cast("double") - functions.col("sent").cast("double")).alias("age"),
        (functions.col("visible_at") > now).alias("hidden"),
    ).persist()
    try:
        tables = {
            "queues": _queues(known),
            "receive_counts": _receive_counts(known),
            "by_minute": _by_minute(known),
        }
        found = {
            name: tuple(row.asDict() for row in table.collect()) for name, table in tables.items()
        }
    finally:
        known.unpersist()
    missing = sorted(set(names) - {row["queue"] for row in found["queues"]})
    empty = tuple({"queue": name, **_EMPTY} for name in missing)
    found["queues"] = tuple(sorted((*found["queues"], *empty), key=lambda row: row["queue"]))
    files: tuple[str, ...] = ()
    if path is not None:
        tell(Progress("report", "drawing"))
        files = _write(Path(path), found)
    return Report(found["queues"], found["receive_counts"], found["by_minute"], files)


_AGES = (0.5, 0.9, 0.99, 1.0)
_EMPTY: dict[str, Any] = {
    "messages": 0, "visible": 0, "in_flight": 0, "delayed": 0,
    "age_p50": None, "age_p90": None, "age_p99": None, "age_max": None,
    "bytes": 0, "mean_bytes": None, "max_bytes": None,
}  # fmt: skip


def _queues(known: DataFrame) -> DataFrame:
    received = functions.col("receive_count") > 0
    hidden = functions.col("hidden")
    ages = functions.percentile("age", functions.array(*map(functions.lit, _AGES)))
    table = known.groupBy("queue").agg(
        functions.count(functions.lit(1)).alias("messages"),
        functions.count_if(~hidden).alias("visible"),
        functions.count_if(hidden & received).alias("in_flight"),
        functions.count_if(hidden & ~received).alias("delayed"),
        ages.alias("ages"),
        functions.sum("size").alias("bytes"),
        functions.round(functions.avg("size"), 1).alias("mean_bytes"),
        functions.max("size").alias("max_bytes"),
    )
    age = [
        functions.round(functions.col("ages")[place], 3).alias(name)
        for place, name in enumerate(("age_p50", "age_p90", "age_p99", "age_max"))
    ]
    return table.select(
        "queue", "messages", "visible", "in_flight", "delayed", *age,
        "bytes", "mean_bytes", "max_bytes",
    ).orderBy("queue")  # fmt: skip


def _receive_counts(known: DataFrame) -> DataFrame:
    count = functions.least("receive_count", functions.lit(MANY)).alias("receive_count")
    table = known.select("queue", count).groupBy("queue", "receive_count")
    return table.agg(functions.count(functions.lit(1)).alias("messages")).orderBy(
        "queue", "receive_count"
    )


def _by_minute(known: DataFrame) -> DataFrame:
    table = known.where("minute IS NOT NULL").groupBy("queue", "minute")
    return table.agg(functions.count(functions.lit(1)).alias("messages")).orderBy("minute", "queue")


def _write(folder: Path, found: dict[str, Rows]) -> tuple[str, ...]:
    import pyarrow as pa  # noqa: PLC0415 - with the plots, only where files are asked for
    from pyarrow import parquet  # noqa: PLC0415

    from rsmq.spark.pipelines import plots  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, rows in found.items():
        file = folder / f"{name}.parquet"
        parquet.write_table(pa.Table.from_pylist(list(rows)), file)
        files.append(str(file))
    return (*files, *plots.draw(folder, found))
