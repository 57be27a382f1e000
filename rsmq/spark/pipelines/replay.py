"""
Replay: Parquet or JSON files into queues.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from pyspark.sql import DataFrame, Observation, SparkSession, functions
from pyspark.sql.types import BinaryType, StringType

from rsmq.errors import InvalidOption
from rsmq.spark.pipelines.progress import Progress, Tell, nobody
from rsmq.spark.pipelines.queues import Queues
from rsmq.spark.sink import was_done

_RESTORED = ("id", "receive_count", "first_received", "visible_at")


@dataclass(frozen=True, slots=True)
class Replayed:
    """
    What a replay has done.

    Attributes:
        messages: how many rows it took; with ``restore`` some may have been there already.
        done_before: True if a replay of the same ``write_id`` was done before, and this one did
            nothing.
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
    tell: Tell = nobody,
) -> Replayed:
    """
    Send rows as messages, in the order in which they were sent once.

    They are staged first, and published when all are there: a task that fails sends nothing. A
    replay that is killed while it publishes is completed by another one of the same ``write_id``.

    Args:
        spark: the session.
        path: an archive, or other files. A column ``message`` is the body; without one the whole
            row is, as JSON.
        target: where the queues are.
        queue: the queue; None takes each row's column ``queue``.
        kind: ``parquet`` or ``json`` (a row a line).
        date: of an archive the day, as in 2026-01-31.
        where: which rows, in SQL.
        restore: True keeps ids, times and counters, and adds only what is not in the queue; False
            sends new messages.
        create: True creates queues that are missing.
        write_id: a name under which this replay is done once, however often it is run.
        tell: is told the progress.

    Raises:
        InvalidOption: kind is unknown, date is not a day, or the rows have no such columns.
    """
    if date is not None:
        _check_day(date)
    if kind not in ("parquet", "json"):
        raise InvalidOption("kind", f"is parquet or json; got {kind!r}.", value=kind)
    if write_id is not None and was_done(target.server(), write_id, 0):
        return Replayed(0, done_before=True)
    rows = spark.read.format(kind).load(path)
    if date is not None:
        if "date" not in rows.columns:
            raise InvalidOption("date", f"{path} is no archive: it has no column date.", value=date)
        rows = rows.where(functions.col("date") == functions.lit(date).cast("date"))
    if where is not None:
        rows = rows.where(where)
    counted = Observation()
    number = functions.count(functions.lit(1)).alias("number")
    frame = _messages(rows, by_row=queue is None, restore=restore).observe(counted, number)
    options = target.options(
        queue=queue,
        delivery="exactly-once",
        restore=restore,
        createQueue=create,
        writeId=write_id,
        messageFormat=None if "message" in rows.columns else "json",
        queueColumn="queue" if queue is None else None,
    )
    tell(Progress("replay", "sending"))
    frame.write.format("rsmq").options(**options).mode("append").save()
    return Replayed(int(counted.get["number"]))


def _check_day(date: str) -> None:
    try:
        dt.date.fromisoformat(date)
    except ValueError:
        rule = f"is a day such as 2026-01-31; got {date!r}."
        raise InvalidOption("date", rule, value=date) from None


def _messages(rows: DataFrame, *, by_row: bool, restore: bool) -> DataFrame:
    if "message" not in rows.columns:
        return rows
    order = [name for name in ("sent", "id") if name in rows.columns]
    if order:
        rows = rows.orderBy(*order)
    if not isinstance(rows.schema["message"].dataType, StringType | BinaryType):
        rows = rows.withColumn("message", functions.to_json("message"))
    columns = ["message"]
    if by_row:
        columns.append("queue")
    if restore:
        columns += [name for name in _RESTORED if name in rows.columns]
    return rows.select(*columns)
