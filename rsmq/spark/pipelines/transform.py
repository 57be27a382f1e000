"""
The job transform: sends the results of a function on messages to a queue, exactly once.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from rsmq.errors import InvalidOption
from rsmq.spark.pipelines.progress import ProgressCallback, ignore_progress
from rsmq.spark.pipelines.queues import Queues, name_kept_columns, refuse_loop
from rsmq.spark.pipelines.streams import read_stream, run_stream
from rsmq.vocabulary.sends import SPARK

Function = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class Transformed:
    """
    The result of a transformation.

    Attributes:
        messages: how many messages it read.
        lost: how many messages other consumers had received meanwhile, in all batches but the
            last; these are not deleted from the queue.
    """

    messages: int
    lost: int


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
    body = "binary" if binary else "string"
    messages = read_stream(
        spark,
        source,
        queues,
        columns=name_kept_columns(source),
        maxMessagesPerTrigger=batch,
        bodyType=body,
    )
    frame: Any = function(messages)
    if not hasattr(frame, "columns"):
        kind = type(frame).__name__
        raise InvalidOption("function", f"returns a DataFrame; this one returned {kind}.")
    columns = ["message", *SPARK.options, *["queue"] * (queue is None)]
    selected = [name for name in columns if name in frame.columns]
    options = target.options(queue=queue, delivery="exactly-once", createQueue=create)
    if "message" not in frame.columns:
        raise InvalidOption(
            "function",
            f"returned a frame without the column message; it has {', '.join(frame.columns)}.",
        )
    writer = (
        frame.select(*selected)
        .writeStream.format("rsmq")
        .options(**options)
        .option("checkpointLocation", checkpoint)
    )
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
