"""
The job replay: sends the rows of Parquet or JSON files to queues.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from pyspark.sql import DataFrame, Observation, SparkSession, functions
from pyspark.sql.types import BinaryType, StringType

from rsmq.errors import InvalidOption
from rsmq.spark.connections import get_server
from rsmq.spark.pipelines.progress import JobProgress, ProgressCallback, ignore_progress
from rsmq.spark.pipelines.queues import GROUP_COLUMNS, Queues
from rsmq.spark.read.sent_columns import SENT_COLUMNS
from rsmq.spark.write.write_decision import is_written
from rsmq.wire.ids import GROUP_MARK

_RESTORED_COLUMNS = ("id", "receive_count", "first_received", "visible_at", *SENT_COLUMNS)


@dataclass(frozen=True, slots=True)
class Replayed:
    """
    The result of a replay.

    Attributes:
        messages: how many rows it wrote; with ``restore``, some may have been in the queue already.
        done_before: whether a replay with the same ``write_id`` was done before, so that this one
            did nothing.
    """

    messages: int
    done_before: bool = False


def replay(
    spark: SparkSession,
    path: str,
    target: Queues,
    queue: str | None = None,
    *,
    kind: str = "parquet",
    date: str | None = None,
    where: str | None = None,
    restore: bool = False,
    create: bool = False,
    write_id: str | None = None,
    tell: ProgressCallback = ignore_progress,
) -> Replayed:
    """
    Send rows as messages, in the order of their columns ``sent`` and ``id``.

    The rows are staged first, and published when all are staged, so a task that fails sends
    nothing. If a replay is killed while it publishes, another one with the same ``write_id``
    completes it.

    Args:
        spark: the session.
        path: an archive, or other files. The column ``message`` is the body; without this column
            the complete row is the body, as JSON.
        target: the server and the namespace of the queues.
        queue: the queue; None reads it from the column ``queue`` of each row.
        kind: ``parquet`` or ``json`` (one row for each line).
        date: the day of an archive, as in 2026-01-31.
        where: a condition in SQL that selects rows.
        restore: True keeps ids, times, counters, groups, limit keys, expiry and retries, and adds
            only messages that are not in the queue; False sends new messages, which have their
            groups and limit keys, and the expiry and the retries of their queue.
        create: True creates missing queues.
        write_id: a name under which this replay is done only once, however often it is run.
        tell: a function that is called with each ``JobProgress``.

    Raises:
        InvalidOption: the kind is unknown, the date is not a day, or a column is missing.
    """
    target.require_one_namespace()
    if date is not None:
        _check_day(date)
    if kind not in ("parquet", "json"):
        raise InvalidOption("kind", f"is parquet or json; got {kind!r}.", value=kind)
    if write_id is not None and is_written(get_server(target.connection()), write_id, 0):
        return Replayed(0, done_before=True)
    # Files of earlier versions lack columns.
    rows = spark.read.format(kind).option("mergeSchema", kind == "parquet").load(path)
    if date is not None:
        if "date" not in rows.columns:
            raise InvalidOption(
                "date", f"{path} is not an archive: it has no column date.", value=date
            )
        rows = rows.where(functions.col("date") == functions.lit(date).cast("date"))
    if where is not None:
        rows = rows.where(where)
    observation = Observation()
    count = functions.count(functions.lit(1)).alias("number")
    messages = _select_messages(rows, has_queue_column=queue is None, restore=restore)
    frame = messages.observe(observation, count)
    options = target.options(
        queue=queue,
        delivery="exactly-once",
        restore=restore,
        createQueue=create,
        writeId=write_id,
        messageFormat=None if "message" in rows.columns else "json",
        queueColumn="queue" if queue is None else None,
    )
    tell(JobProgress("replay", "sending"))
    frame.write.format("rsmq").options(**options).mode("append").save()
    return Replayed(int(observation.get["number"]))


def _check_day(date: str) -> None:
    try:
        dt.date.fromisoformat(date)
    except ValueError:
        rule = f"is a day such as 2026-01-31; got {date!r}."
        raise InvalidOption("date", rule, value=date) from None


def _select_messages(rows: DataFrame, *, has_queue_column: bool, restore: bool) -> DataFrame:
    if "message" not in rows.columns:
        return rows
    order = [name for name in ("sent", "id") if name in rows.columns]
    if order:
        rows = rows.orderBy(*order)
    if not isinstance(rows.schema["message"].dataType, StringType | BinaryType):
        rows = rows.withColumn("message", functions.to_json("message"))
    columns = ["message"]
    if has_queue_column:
        columns.append("queue")
    if restore:
        rows = _without_receive_of_archive(rows)
        columns += [name for name in _RESTORED_COLUMNS if name in rows.columns]
        return rows.select(*columns)
    # In rows of other programs these columns are no groups, and the ids have no mark.
    has_group = functions.col("id").endswith(GROUP_MARK.decode()) if "id" in rows.columns else None
    groups = [
        functions.when(has_group, functions.col(name)).cast(SENT_COLUMNS[name]).alias(name)
        for name in GROUP_COLUMNS
        if has_group is not None and name in rows.columns
    ]
    return rows.select(*columns, *groups)


def _without_receive_of_archive(rows: DataFrame) -> DataFrame:
    """
    Subtract the receive by which an archive has moved messages with groups.

    A restored message that was received does not wait for others of its group, as it may be in
    flight. Only archives that moved messages have no column ``visible_at``.
    """
    names = {"group", "limit_key", "receive_count", "first_received"}
    if "visible_at" in rows.columns or not names.issubset(rows.columns):
        return rows
    has_group = functions.expr("`group` IS NOT NULL OR limit_key IS NOT NULL")
    count, first = functions.col("receive_count"), functions.col("first_received")
    return rows.withColumns(
        {
            "receive_count": functions.when(has_group & (count > 0), count - 1).otherwise(count),
            "first_received": functions.when(~has_group | (count > 1), first),
        }
    )
