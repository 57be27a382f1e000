"""
The jobs that send messages of queues to other queues: transform and redrive.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, functions

from rsmq.errors import InvalidOption
from rsmq.spark.pipelines.queues import GROUP_COLUMNS, Queues, name_kept_columns, refuse_loop
from rsmq.spark.pipelines.streams import (
    ProgressCallback,
    StreamResult,
    ignore_progress,
    read_stream,
    run_stream,
)
from rsmq.vocabulary.sends import SPARK

Function = Callable[[DataFrame], DataFrame]


class Transformed(StreamResult):
    """The result of a transformation: the messages that it read."""


def transform(  # noqa: PLR0917 - source and target in order
    spark: SparkSession,
    source: Queues,
    queues: str | Sequence[str],
    target: Queues,
    queue: str | None,
    function: Function,
    *,
    checkpoint: str,
    follow: bool = False,
    create: bool = False,
    binary: bool = False,
    batch: int = 100_000,
    tell: ProgressCallback = ignore_progress,
) -> Transformed:
    """
    Send the rows that a function makes of messages to a queue, exactly once.

    Args:
        spark: the session.
        source: the server and the namespaces of the messages to read. Of several, the frame that
            the function gets has a column ``ns``.
        queues: the name of one queue to read, or several names.
        target: the server and the namespace of the queue to write.
        queue: the queue to write; None reads it from the column ``queue`` of each row.
        function: converts a frame of messages to one with a column ``message``, and optionally
            ``queue`` and the options of sends, such as ``delay`` (seconds) and ``group``. The frame
            that it gets has the groups, limit keys and numbers of retries of messages.
        checkpoint: the folder where Spark stores its progress. A transformation must always have
            the same checkpoint.
        follow: True waits for new messages and runs until it is stopped.
        create: True creates missing queues.
        binary: True passes ``message`` to the function as bytes; False as text, in which bytes
            that are not UTF-8 are U+FFFD.
        batch: the most messages of a batch.
        tell: a function that is called with each ``JobProgress``.

    Raises:
        InvalidOption: the function did not return a frame with a column ``message``, or the queue
            to write is one of those to read.
    """
    target.require_one_namespace()
    refuse_loop(source, queues, target, queue)
    columns, body = name_kept_columns(source), "binary" if binary else "string"
    frame: Any = function(read_stream(spark, source, queues, batch, columns=columns, bodyType=body))
    if not hasattr(frame, "columns"):
        kind = type(frame).__name__
        raise InvalidOption("function", f"returns a DataFrame; this one returned {kind}.")
    if "message" not in frame.columns:
        raise InvalidOption(
            "function",
            f"returned a frame without the column message; it has {', '.join(frame.columns)}.",
        )
    own = ["message", *SPARK.options, *["queue"] * (queue is None)]
    options = target.options(queue=queue, createQueue=create, delivery="exactly-once")
    sent = frame.select(*[name for name in own if name in frame.columns])
    writer = sent.writeStream.format("rsmq").options(checkpointLocation=checkpoint, **options)
    count = run_stream("transform", source, writer, follow=follow, report_progress=tell)
    return Transformed(count.messages, count.lost)


def load_function(name: str) -> Function:
    """
    Return the function that ``module:function`` names; modules in the working folder are found too.

    Raises:
        InvalidOption: the function can't be imported, or is not callable.
    """
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise InvalidOption("function", f"is module:function; got {name!r}.", value=name)
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        imported = importlib.import_module(module)
        function = getattr(imported, attribute)
    except (ImportError, AttributeError) as error:
        raise InvalidOption("function", f"{name} can't be found: {error}.", value=name) from error
    except Exception as error:
        cause = f"{type(error).__name__}: {error}"
        raise InvalidOption(
            "function", f"{module} can't be imported: {cause}.", value=name
        ) from error
    if not callable(function):
        raise InvalidOption("function", f"{name} is not a function.", value=name)
    # Executors on other machines do not have the module, so its definitions are sent to them.
    cloudpickle.register_pickle_by_value(imported)  # type: ignore[no-untyped-call]
    result: Function = function
    return result


class Redriven(StreamResult):
    """The result of a redrive: the dead letters that it sent."""


def redrive(
    spark: SparkSession,
    at: Queues,
    dead_letter_queue: str,
    to: str,
    otherwise: str,
    *,
    checkpoint: str,
    batch: int = 100_000,
    tell: ProgressCallback = ignore_progress,
) -> Redriven:
    """
    Send dead letters as new messages to queues that an expression names, each exactly once.

    The messages are in their groups, and have their limit keys.

    Args:
        spark: the session.
        at: the server and the namespace of the queues.
        dead_letter_queue: the queue of the dead letters; all that are visible now are sent.
        to: an SQL expression over the columns of messages that names a queue, such as
            ``CASE WHEN message LIKE '%timeout%' THEN 'orders' END``.
        otherwise: the queue of the dead letters for which the expression is null or names a queue
            that does not exist, or the dead-letter queue itself.
        checkpoint: the folder where Spark stores its progress. A dead-letter queue must always
            have the same checkpoint.
        batch: the most messages of a batch.
        tell: a function that is called with each ``JobProgress``.

    Raises:
        InvalidOption: ``otherwise`` is the dead-letter queue itself, or ``to`` is not an
            expression.
        QueueNotFound: ``dead_letter_queue`` or ``otherwise`` does not exist.
    """
    at.require_one_namespace()
    refuse_loop(at, dead_letter_queue, at, otherwise, option="otherwise")
    at.require((dead_letter_queue, otherwise))
    possible = [name for name in at.list_names() if name != dead_letter_queue]
    # The expression needs the message as text; the bytes of ``raw`` are sent unchanged.
    columns = name_kept_columns(at, with_raw=True)
    frame = read_stream(spark, at, dead_letter_queue, batch, columns=columns)
    frame = _with_chosen(frame, to)
    target = functions.when(functions.col("chosen").isin(possible), functions.col("chosen"))
    queue = functions.coalesce(target, functions.lit(otherwise))
    message = functions.col("raw").alias("message")
    sent = frame.select(message, queue.alias("queue"), *GROUP_COLUMNS)
    options = at.options(enforceMaxSize=False, delivery="exactly-once")
    writer = sent.writeStream.format("rsmq").options(checkpointLocation=checkpoint, **options)
    done = run_stream("redrive", at, writer, follow=False, report_progress=tell)
    return Redriven(done.messages, done.lost)


def _with_chosen(frame: DataFrame, to: str) -> DataFrame:
    """Return a frame of messages with the queue that an expression chooses for each."""
    try:
        chosen = frame.withColumn("chosen", functions.expr(f"CAST(({to}) AS STRING)"))
        chosen.schema  # noqa: B018 - Spark Connect looks at the expression only now
    except AnalysisException as error:
        raise InvalidOption(
            "to",
            f"{to} is not an SQL expression over {', '.join(frame.columns)}. The name of a queue "
            "is in single quotes, as in 'orders'.",
            value=to,
        ) from error
    return chosen
