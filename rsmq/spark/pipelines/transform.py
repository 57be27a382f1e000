"""
Transform: from queue to queue through a function, exactly once.
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
from rsmq.spark.pipelines.progress import Tell, nobody
from rsmq.spark.pipelines.queues import Queues
from rsmq.spark.pipelines.streams import run, stream

Function = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class Transformed:
    """
    What a transformation has done.

    Attributes:
        messages: how many messages it took.
        lost: how many other consumers had taken meanwhile, of all batches but the last; those are
            not removed.
    """

    messages: int
    lost: int


def transform(  # noqa: PLR0917 - from where to where
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
    tell: Tell = nobody,
) -> Transformed:
    """
    Send what a function makes of messages to another queue, each once, whatever dies.

    Args:
        spark: the session.
        source: where the messages are.
        queues: of one queue or several.
        target: where the others go.
        queue: the queue; None takes each row's column ``queue``.
        function: takes a frame of messages and returns one with a column ``message``, and perhaps
            ``queue`` and ``delay`` (seconds).
        checkpoint: where Spark keeps how far it is: one transformation, one checkpoint.
        follow: True goes on with what comes, until it is stopped.
        create: True creates queues that are missing.
        binary: True gives the function bytes as ``message``; False text, in which what is not UTF-8
            is U+FFFD.
        batch: how many messages a batch has at most.
        tell: is told the progress.
    """
    body = "binary" if binary else "string"
    frame: Any = function(stream(spark, source, queues, maxMessagesPerTrigger=batch, bodyType=body))
    if not hasattr(frame, "columns"):
        kind = type(frame).__name__
        raise InvalidOption("function", f"returns a DataFrame; this one returned {kind}.")
    options = target.options(queue=queue, delivery="exactly-once", createQueue=create)
    columns = ("message", "delay", "queue") if queue is None else ("message", "delay")
    wanted = [name for name in columns if name in frame.columns]
    if "message" not in frame.columns:
        raise InvalidOption(
            "function",
            f"returned a frame without the column message; it has {', '.join(frame.columns)}.",
        )
    writer = (
        frame.select(*wanted)
        .writeStream.format("rsmq")
        .options(**options)
        .option("checkpointLocation", checkpoint)
    )
    count = run("transform", writer, follow=follow, tell=tell)
    return Transformed(count.messages, count.lost)


def function_of(name: str) -> Function:
    """
    The function that ``module:function`` names; a module may lie in the working folder.

    Raises:
        InvalidOption: there is none.
    """
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise InvalidOption("function", f"is module:function; got {name!r}.", value=name)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found_in = importlib.import_module(module)
        function = getattr(found_in, attribute)
    except (ImportError, AttributeError) as error:
        raise InvalidOption("function", f"{name} can't be found: {error}.", value=name) from error
    if not callable(function):
        raise InvalidOption("function", f"{name} is no function.", value=name)
    # Executors on other machines have no such module: what it defines is sent to them.
    cloudpickle.register_pickle_by_value(found_in)  # type: ignore[no-untyped-call]
    found: Function = function
    return found
