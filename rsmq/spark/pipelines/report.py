"""
The job report: figures of queues, read without changing them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions

from rsmq.errors.printable import format_count
from rsmq.spark.connections import SparkServer
from rsmq.spark.pipelines.dead_letters import count_dead_letters
from rsmq.spark.pipelines.progress import JobProgress, ProgressCallback, ignore_progress
from rsmq.spark.pipelines.queues import Queues, count_partitions, join_names
from rsmq.spark.pipelines.tables import Rows, collect_rows

#: Messages that were received this often, or more often, are counted together.
MAX_RECEIVE_COUNT = 10


@dataclass(frozen=True, slots=True)
class QueueReport:
    """
    The figures of queues at one moment: tables, each a tuple of rows, which are dicts.

    Of several namespaces, the name of each queue is behind that of its namespace: ``shop:orders``.

    Attributes:
        queues: for each queue its number of messages (all, and those of each state of
            ``rsmq.MessageCounts``), the percentiles of their age in seconds, and the bytes of
            bodies (total, mean, largest).
        receive_counts: for each queue and receive count, the number of messages.
        by_minute: for each queue and minute (UTC), the number of messages that were sent.
        dead_by_cause: for each dead-letter queue and cause, the number of dead letters, when the
            first and the last died (UTC), and the exception of the last, 200 characters at most.
            The cause is the type of the exception, for a webhook with the HTTP status. Without an
            exception it is the text of the reason.
        dead_by_worker: for each dead-letter queue and worker, the number of dead letters, and when
            the last died (UTC).
        dead_by_minute: for each dead-letter queue, minute (UTC) and cause, the number of messages
            that died.
        files: the files that were written.
    """

    queues: Rows
    receive_counts: Rows
    by_minute: Rows
    dead_by_cause: Rows
    dead_by_worker: Rows
    dead_by_minute: Rows
    files: tuple[str, ...]


def report(
    spark: SparkSession,
    at: Queues,
    queues: str | Sequence[str] | None = None,
    *,
    path: str | None = None,
    html: str | None = None,
    tell: ProgressCallback = ignore_progress,
) -> QueueReport:
    """
    Return figures of queues; change nothing.

    Args:
        spark: the session.
        at: the server and the namespaces of the queues.
        queues: the name of one queue, or several names; None is all listed queues.
        path: a folder on this machine for the tables as Parquet and for plots as PNG; None writes
            no files.
        html: a file on this machine for the tables and the plots as one page; None writes none.
        tell: a function that is called with each ``JobProgress``.
    """
    names = at.list_names() if queues is None else join_names(queues).split(",")
    if not names:
        return QueueReport((), (), (), (), (), (), ())
    tell(JobProgress("report", f"reading {format_count(len(names), 'queue')}"))
    numbers = {
        server.make_label(name): _count_by_state(server, name)
        for server in at.servers()
        for name in sorted(names)
        if server.is_only or server.has(name)
    }
    options = at.options(
        **at.select(names), bodyType="binary", numPartitions=count_partitions(spark)
    )
    messages = at.label_queues(spark.read.format("rsmq").options(**options).load())
    now_seconds = at.servers()[0].now_ms() / 1000
    now = functions.lit(now_seconds).cast("timestamp")
    figures = messages.select(
        "queue",
        "receive_count",
        functions.octet_length("message").alias("size"),
        functions.date_trunc("minute", "sent").alias("minute"),
        (now.cast("double") - functions.col("sent").cast("double")).alias("age"),
    ).persist()
    try:
        tables = {
            "queues": _measure_queues(figures),
            "receive_counts": _count_by_receive_count(figures),
            "by_minute": _count_by_minute(figures),
        }
        results = {name: collect_rows(table) for name, table in tables.items()}
    finally:
        figures.unpersist()
    sizes = {row["queue"]: row for row in results["queues"]}
    results["queues"] = tuple(
        {"queue": name, **counts, **sizes.get(name, _NO_SIZES)} for name, counts in numbers.items()
    )
    results |= count_dead_letters(spark, at, names)
    files: list[str] = []
    if path is not None:
        tell(JobProgress("report", "drawing"))
        files += _write_files(Path(path), results)
    if html is not None:
        tell(JobProgress("report", "writing the page"))
        files.append(_write_page(Path(html), at, results, datetime.fromtimestamp(now_seconds, UTC)))
    return QueueReport(**results, files=tuple(files))


_AGE_PERCENTILES = (0.5, 0.9, 0.99, 1.0)
_STATES = ("visible", "in_flight", "retrying", "held_back", "delayed")
_NO_SIZES: dict[str, Any] = {
    "age_p50": None, "age_p90": None, "age_p99": None, "age_max": None,
    "bytes": 0, "mean_bytes": None, "max_bytes": None,
}  # fmt: skip


def _count_by_state(server: SparkServer, name: str) -> dict[str, int]:
    """Return the messages of a queue, of all states and of each."""
    counts = server.rsmq.count_messages(name)
    by_state: dict[str, int] = {state: getattr(counts, state) for state in _STATES}
    return {"messages": sum(by_state.values()), **by_state}


def _measure_queues(figures: DataFrame) -> DataFrame:
    ages = functions.percentile("age", functions.array(*map(functions.lit, _AGE_PERCENTILES)))
    table = figures.groupBy("queue").agg(
        ages.alias("ages"),
        functions.sum("size").alias("bytes"),
        functions.round(functions.avg("size"), 1).alias("mean_bytes"),
        functions.max("size").alias("max_bytes"),
    )
    age_columns = [
        functions.round(functions.col("ages")[place], 3).alias(name)
        for place, name in enumerate(("age_p50", "age_p90", "age_p99", "age_max"))
    ]
    return table.select("queue", *age_columns, "bytes", "mean_bytes", "max_bytes")


def _count_by_receive_count(figures: DataFrame) -> DataFrame:
    count = functions.least("receive_count", functions.lit(MAX_RECEIVE_COUNT)).alias(
        "receive_count"
    )
    table = figures.select("queue", count).groupBy("queue", "receive_count")
    return table.agg(functions.count(functions.lit(1)).alias("messages")).orderBy(
        "queue", "receive_count"
    )


def _count_by_minute(figures: DataFrame) -> DataFrame:
    table = figures.where("minute IS NOT NULL").groupBy("queue", "minute")
    return table.agg(functions.count(functions.lit(1)).alias("messages")).orderBy("minute", "queue")


def _write_files(folder: Path, results: dict[str, Rows]) -> list[str]:
    import pyarrow as pa  # noqa: PLC0415 - slow to import, and needed for files only
    from pyarrow import parquet  # noqa: PLC0415

    from rsmq.spark.pipelines import plots  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, rows in results.items():
        if not rows and name.startswith("dead_"):
            continue
        file = folder / f"{name}.parquet"
        parquet.write_table(pa.Table.from_pylist(list(rows)), file)
        files.append(str(file))
    return files + plots.write_png(folder, results)


def _write_page(file: Path, at: Queues, results: dict[str, Rows], read_at: datetime) -> str:
    from rsmq.spark.pipelines import page, plots  # noqa: PLC0415 - as above

    file.parent.mkdir(parents=True, exist_ok=True)
    plotted = plots.draw_svg(results)
    file.write_text(page.build_page(results, plotted, at.ns, read_at), "utf-8")
    return str(file)
