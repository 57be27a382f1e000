"""
The errors of a job on Spark: the one line with the cause, of the hundreds that Spark writes.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from types import FrameType
from typing import Any

from rsmq.cli.app.errors import Exit, Failed
from rsmq.cli.app.signals import handling

_VERBOSE_HINT = "--verbose shows all that Spark writes."

#: The loggers of PySpark that write traces of errors which are raised, too.
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

_TRACEBACK = "Traceback (most recent call last):"
_CLASS = re.compile(r"^(?:[A-Za-z_$][\w$]*\.)+[\w$]*(?:Exception|Error): ")
#: The conditions of Spark for errors in the SQL of an argument.
_SQL_CONDITIONS = ("PARSE_SYNTAX_ERROR", "UNRESOLVED_COLUMN", "UNRESOLVED_ROUTINE", "DATATYPE_")


def extract_cause(text: str) -> str:
    """Return the lines of a long error of Spark that name the cause."""
    lines = [line for line in text.splitlines() if line.strip()]
    own = [index for index, line in enumerate(lines) if line.startswith("rsmq.errors.")]
    if own:
        cause = []
        for line in lines[own[-1] :]:
            if line.lstrip().startswith(("SQLSTATE", "at ", "JVM", "==", "=== ")):
                break
            cause.append(line)
        cause[0] = cause[0].partition(": ")[2]  # without the name of the class
        return "\n".join(cause)
    of_python = [index for index, line in enumerate(lines) if line.rstrip().endswith(_TRACEBACK)]
    if of_python:
        behind = (line for line in lines[of_python[-1] + 1 :] if not line.startswith(" "))
        return next(behind, lines[0])
    of_java = [line for line in lines if line.startswith(("Caused by: ", ": "))]
    cause_line = of_java[-1].partition(": ")[2] if of_java else lines[0] if lines else text
    return _CLASS.sub("", cause_line).partition(" SQLSTATE:")[0]


def is_of_spark(error: Exception) -> bool:
    """Return whether an error is one of PySpark or py4j, of which Spark Connect has no py4j."""
    modules = [kind.__module__.partition(".")[0] for kind in type(error).__mro__]
    return not {"pyspark", "py4j"}.isdisjoint(modules)


def describe_job_error(error: Exception, *, is_verbose: bool) -> Failed:
    """
    Return the error of the program for an error of Spark; write all of it if ``is_verbose``.

    Args:
        error: an error of PySpark or py4j.
        is_verbose: whether everything is written.
    """
    if is_verbose:
        traceback.print_exception(error, file=sys.stderr)
    text = str(error)
    is_usage = "rsmq.errors.InvalidOption" in text or text.lstrip().startswith(
        tuple(f"[{condition}" for condition in _SQL_CONDITIONS)
    )
    return Failed(
        extract_cause(text),
        exit=Exit.USAGE if is_usage else Exit.NOT_ALL,
        code="spark",
        hint=None if is_verbose or is_usage else _VERBOSE_HINT,
    )


def guard_function(function: Callable[[Any], Any], name: str, *, is_verbose: bool) -> Any:
    """Return a function of the user whose errors become one line; ``name`` is its name."""

    def call(frame: Any) -> Any:
        try:
            return function(frame)
        except Exception as error:
            if is_verbose:
                traceback.print_exception(error, file=sys.stderr)
            cause = extract_cause(str(error))
            raise Failed(
                f"{name} failed: {type(error).__name__}: {cause}",
                exit=Exit.NOT_ALL,
                code="function",
                hint=None if is_verbose else _VERBOSE_HINT,
            ) from error

    return call


def configure_logging(*, is_verbose: bool) -> None:
    """
    Write the warnings of this library as lines, and those of others only if ``is_verbose``.

    PySpark and py4j write a trace of each error that they raise, and of each interrupted call.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("rsmq-pipeline: %(message)s"))
    if not is_verbose:
        handler.addFilter(lambda record: record.name.startswith("rsmq."))
        for name in _LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


@contextmanager
def hide_output_of_spark(*, is_verbose: bool) -> Iterator[None]:
    """
    Start Spark's processes in this block without a standard error, unless ``is_verbose``.

    They write traces of errors, also of those that the job itself reports.
    """
    if is_verbose:
        yield
        return
    sys.stderr.flush()
    own = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(own, 2)
        os.close(null)
        os.close(own)


class Terminated(KeyboardInterrupt):
    """SIGTERM has arrived: the job ends as after Ctrl-C."""


@contextmanager
def end_by_sigterm() -> Iterator[Event]:
    """
    End the block by ``Terminated`` when SIGTERM arrives, so that a stream ends in order.

    Yields:
        An event that is set if SIGTERM has arrived.
    """
    has_arrived = Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the job is ending
        has_arrived.set()
        raise Terminated

    with handling(end, signal.SIGTERM):
        yield has_arrived
