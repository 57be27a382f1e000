"""
The job report: figures of queues, read without changing them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.types import TimestampType

from rsmq.errors.printable import format_count
from rsmq.spark.connections import SparkServer
from rsmq.spark.pipelines.queues import (
    MAX_RECEIVE_COUNT,
    Queues,
    Rows,
    count_rows,
    join_names,
    read_frame,
)
from rsmq.spark.pipelines.streams import JobProgress, ProgressCallback, ignore_progress

#: The cause of a dead letter whose reason is not stored (any more), and its worker.
UNKNOWN = "(no reason stored)"

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - rows have times in UTC, without a time zone
_MAX_TEXT_CHARACTERS = 200
_AGE_PERCENTILES = {"age_p50": 0.5, "age_p90": 0.9, "age_p99": 0.99, "age_max": 1.0}
_STATES = ("visible", "in_flight", "retrying", "held_back", "delayed")
_NO_SIZES: dict[str, Any] = {
    **dict.fromkeys(_AGE_PERCENTILES), "bytes": 0, "mean_bytes": None, "max_bytes": None,
}  # fmt: skip
_DEAD_LETTER_COLUMNS = ("queue", "reason", "exception", "worker", "died_at", "status")


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
    now_seconds = at.servers()[0].now_ms() / 1000
    now = functions.lit(now_seconds).cast("timestamp")
    figures = at.label_queues(read_frame(spark, at, **at.select(names), bodyType="binary")).select(
        "queue",
        functions.least("receive_count", functions.lit(MAX_RECEIVE_COUNT)).alias("receive_count"),
        functions.octet_length("message").alias("size"),
        functions.date_trunc("minute", "sent").alias("minute"),
        (now.cast("double") - functions.col("sent").cast("double")).alias("age"),
    )
    results = _collect(
        figures,
        {
            "queues": _measure_queues,
            "receive_counts": lambda frame: _count(frame, "queue", "receive_count"),
            "by_minute": lambda frame: _count(
                frame.where("minute IS NOT NULL"), "queue", "minute"
            ).orderBy("minute", "queue"),
        },
    )
    sizes = {row["queue"]: row for row in results["queues"]}
    results["queues"] = tuple(
        {"queue": name, **counts, **sizes.get(name, _NO_SIZES)} for name, counts in numbers.items()
    )
    results |= _count_dead_letters(spark, at, names)
    files: list[str] = []
    if path is not None:
        tell(JobProgress("report", "drawing"))
        files += _write_files(Path(path), results)
    if html is not None:
        tell(JobProgress("report", "writing the page"))
        files.append(_write_page(Path(html), at, results, datetime.fromtimestamp(now_seconds, UTC)))
    return QueueReport(**results, files=tuple(files))


def _count_by_state(server: SparkServer, name: str) -> dict[str, int]:
    """Return the messages of a queue, of all states and of each."""
    counts = server.rsmq.count_messages(name)
    by_state: dict[str, int] = {state: getattr(counts, state) for state in _STATES}
    return {"messages": sum(by_state.values()), **by_state}


def _collect(
    frame: DataFrame, tables: dict[str, Callable[[DataFrame], DataFrame]]
) -> dict[str, Rows]:
    """Return the rows of tables of a frame, by name; the frame is read once."""
    frame.persist()
    try:
        return {name: _collect_rows(make_table(frame)) for name, make_table in tables.items()}
    finally:
        frame.unpersist()


def _collect_rows(table: DataFrame) -> Rows:
    """Return the rows of a small frame; times are UTC, without a time zone."""
    times = [field.name for field in table.schema if isinstance(field.dataType, TimestampType)]
    if times:  # Spark Connect refuses to replace no column
        # PySpark would return times in the time zone of this process.
        table = table.withColumns({name: functions.unix_micros(name) for name in times})
    rows = [row.asDict() for row in table.collect()]
    for row in rows:
        for name in times:
            if row[name] is not None:
                row[name] = _EPOCH + timedelta(microseconds=row[name])
    return tuple(rows)


def _count(frame: DataFrame, *by: str, **more: Column) -> DataFrame:
    """Return the number of messages of each group, and more columns; in the order of the groups."""
    columns = [column.alias(name) for name, column in more.items()]
    return frame.groupBy(*by).agg(count_rows("messages"), *columns).orderBy(*by)


def _measure_queues(figures: DataFrame) -> DataFrame:
    percentiles = functions.array(*map(functions.lit, _AGE_PERCENTILES.values()))
    table = figures.groupBy("queue").agg(
        functions.percentile("age", percentiles).alias("ages"),
        functions.sum("size").alias("bytes"),
        functions.round(functions.avg("size"), 1).alias("mean_bytes"),
        functions.max("size").alias("max_bytes"),
    )
    age_columns = [
        functions.round(functions.col("ages")[place], 3).alias(name)
        for place, name in enumerate(_AGE_PERCENTILES)
    ]
    return table.select("queue", *age_columns, "bytes", "mean_bytes", "max_bytes")


def _count_dead_letters(spark: SparkSession, at: Queues, queues: Sequence[str]) -> dict[str, Rows]:
    """
    Return the tables of a report whose names begin with ``dead_``.

    Counts the messages of the queues beside which a worker has stored a reason. The tables are
    empty if there is none.
    """
    found = [
        (server.make_label(name), name)
        for server in at.servers()
        for name in server.find_queues_with_reasons(queues)
    ]
    if not found:
        return dict.fromkeys(("dead_by_cause", "dead_by_worker", "dead_by_minute"), ())
    columns = ",".join((*["ns"] * at.is_several, *_DEAD_LETTER_COLUMNS))
    names = list(dict.fromkeys(name for _, name in found))
    messages = at.label_queues(read_frame(spark, at, **at.select(names), columns=columns))
    if at.is_several:  # a queue of another namespace with the same name may have no reasons
        messages = messages.where(functions.col("queue").isin([label for label, _ in found]))
    exception_type = functions.substring_index("exception", ":", 1)
    cause = functions.when(
        functions.isnotnull("exception"), functions.concat_ws(" ", exception_type, "status")
    ).otherwise(functions.coalesce("reason", functions.lit(UNKNOWN)))
    dead_letters = messages.select(
        "queue",
        functions.substring(cause, 1, _MAX_TEXT_CHARACTERS).alias("cause"),
        functions.coalesce("worker", functions.lit(UNKNOWN)).alias("worker"),
        "died_at",
        functions.date_trunc("minute", "died_at").alias("minute"),
        functions.substring("exception", 1, _MAX_TEXT_CHARACTERS).alias("example"),
    )
    first, last = functions.min("died_at"), functions.max("died_at")
    example = functions.max_by("example", "died_at")
    most = functions.desc("messages")
    return _collect(
        dead_letters,
        {
            "dead_by_cause": lambda frame: _count(
                frame, "queue", "cause", first_died=first, last_died=last, example=example
            ).orderBy("queue", most, "cause"),
            "dead_by_worker": lambda frame: _count(
                frame, "queue", "worker", last_died=last
            ).orderBy("queue", most, "worker"),
            "dead_by_minute": lambda frame: _count(
                frame.where("minute IS NOT NULL"), "queue", "minute", "cause"
            ).orderBy("minute", "queue", "cause"),
        },
    )


def _write_files(folder: Path, results: dict[str, Rows]) -> list[str]:
    import pyarrow as pa  # noqa: PLC0415 - slow to import, and needed for files only
    from pyarrow import parquet  # noqa: PLC0415

    from rsmq.spark.pipelines import pictures  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    tables = {n: rows for n, rows in results.items() if rows or not n.startswith("dead_")}
    for name, rows in tables.items():
        parquet.write_table(pa.Table.from_pylist(list(rows)), folder / f"{name}.parquet")
    files = [str(folder / f"{name}.parquet") for name in tables]
    return files + pictures.write_png(folder, results)


def _write_page(file: Path, at: Queues, results: dict[str, Rows], read_at: datetime) -> str:
    from rsmq.spark.pipelines import pictures  # noqa: PLC0415 - as above

    file.parent.mkdir(parents=True, exist_ok=True)
    plots = pictures.draw_svg(results)
    file.write_text(pictures.build_page(results, plots, at.ns, read_at), "utf-8")
    return str(file)
