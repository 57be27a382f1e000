"""
The command group pipeline: the jobs of ``rsmq.spark.pipelines``.

``rsmq-pipeline`` is this group as a program, and spark-submit runs this file. It needs the extra
``spark`` when a job runs.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import Decorator, Group, command, options
from rsmq.cli.app.errors import Exit, Failed
from rsmq.cli.app.output import Output, format_cell, format_table
from rsmq.cli.app.program import run
from rsmq.cli.commands.pipeline_errors import (
    configure_logging,
    describe_job_error,
    end_by_sigterm,
    guard_function,
    hide_output_of_spark,
    is_of_spark,
)
from rsmq.cli.commands.pipeline_place import other_queues, own_queues, place_options
from rsmq.errors import InvalidOption
from rsmq.errors.printable import escape_unprintable, format_count

if TYPE_CHECKING:
    from rsmq.spark.pipelines.streams import JobProgress

_HELP = """
Run a job on queues with Spark.

A job runs on the processors of this machine. On a cluster: spark-submit "$(rsmq-pipeline --file)"
COMMAND ... It needs the extra spark.
"""

#: Checks the options of a job, and returns the arguments after the session; the options that it
#: leaves in the mapping are passed too.
Preparation = Callable[[Call, dict[str, Any]], tuple[Any, ...]]

pipeline = Group(
    "pipeline",
    help=_HELP,
    examples=[
        "rsmq pipeline archive orders archive/",
        "rsmq pipeline report --html report.html",
    ],
)
pipeline = click.version_option(
    str(Path(__file__)), "--file", message="%(version)s",
    help="Print the path of the file for spark-submit, and exit.",
)(pipeline)  # fmt: skip


def _job(
    usage: str, *examples: str, streams: bool = False
) -> Callable[[Preparation], click.Command]:
    """
    Return a decorator that makes a command of the preparation of a job.

    Args:
        usage: the job, a function of ``rsmq.spark.pipelines``, with its arguments.
        examples: examples of calls, one line each.
        streams: whether it is a stream, unless it keeps the messages.
    """

    def add(prepare: Preparation) -> click.Command:
        @wraps(prepare)
        def run_job(call: Call, /, **options: Any) -> int:
            return _run_job(call, usage.split(maxsplit=1)[0], prepare, options, streams=streams)

        made = command(usage, *examples)(_OF_SPARK(run_job))
        pipeline.add_command(made)
        return made

    return add


_OF_SPARK = options("""
    --master URL  The URL of the Spark master; local[*,4] by default.
    --verbose  Show all that Spark writes, and traces of errors.
    """)


_FOLLOW = options("--follow  Continue with new messages until it is stopped.")
_CREATE = options("--create  Create missing queues.")
_CHECKPOINT = options(
    "--checkpoint FOLDER  The folder in which Spark stores the progress of this job.  [required]"
)
_BATCH = options(
    "--batch N  The most messages of a batch.  [default: 100000]", batch={"type": click.IntRange(1)}
)


def _optional_checkpoint(default: str) -> Decorator:
    return options(
        "--checkpoint FOLDER  The folder in which Spark stores the progress of this job; "
        f"{default} by default."
    )


@_job("archive QUEUE,... PATH", "rsmq pipeline archive orders,mail archive/ --follow", streams=True)
@_FOLLOW
@options("""
    --keep  Copy the messages, and do not change the queues.
    --text  Store messages as text instead of bytes.
    """)
@_optional_checkpoint("_checkpoint in PATH")
@_BATCH
@place_options()
def archive(call: Call, of: dict[str, Any]) -> tuple[Any, ...]:
    """
    Move messages to Parquet files, one folder for each day.

    PATH is the folder of the archive; each run adds files.
    """
    source = own_queues(call, of, of["queues"])
    return source, of.pop("queues"), of.pop("path")


@_job("replay PATH", "rsmq pipeline replay archive/ --date 2026-01-31 --queue again --create")
@options("""
    --queue QUEUE  The target queue; by default that of the column queue of each row.
    --kind [parquet|json]  The format of the files.  [default: parquet]
    --date DAY  Only this day of an archive, as in 2026-01-31.
    --where SQL  Only the rows for which this SQL expression is true.
    --restore  Keep ids, times and counters.
    """)
@_CREATE
@options("--write-id NAME  A replay with the same name is done only once.")
@place_options()
def replay(call: Call, of: dict[str, Any]) -> tuple[Any, ...]:
    """
    Send the messages of files, in order, all or none.

    PATH is an archive, or other Parquet or JSON files.
    """
    path, queue = of.pop("path"), of.pop("queue")
    _require_files(path)
    target = own_queues(call, of)
    target.require_one_namespace()
    target.require([queue] if queue is not None and not of["create"] else [])
    return path, target, queue


@_job(
    "migrate",
    "rsmq pipeline migrate --from-url redis://old:6379/0 --to-url redis://new:6379/0",
)
@options("--queues QUEUE,...  Names, separated by commas; all queues by default.")
@place_options("from-")
@place_options("to-")
def migrate(call: Call, of: dict[str, Any]) -> tuple[Any, ...]:
    """Copy queues with ids, times and counters, and verify the copy."""
    if {"url", "ns", "profile"} & call.options.keys():
        raise Failed("A migration has two places: give --from-url and --to-url.")
    source, target = other_queues("from_", of), other_queues("to_", of)
    source.require_one_namespace()
    target.require_one_namespace()
    source.require(of["queues"] or [])
    return source, target, of.pop("queues")


@_job(
    "transform QUEUE,...",
    "rsmq pipeline transform orders shop:clean --to clean --checkpoint progress",
    streams=True,
)
@click.argument("function", metavar="MODULE:FUNCTION")
@options("--to QUEUE  The target queue; by default that of the column queue of each row.")
@_CREATE
@options("--binary  Pass messages as bytes instead of text.")
@_FOLLOW
@_CHECKPOINT
@_BATCH
@place_options()
@place_options("to-", default="that of the source")
def transform(call: Call, of: dict[str, Any]) -> tuple[Any, ...]:
    """
    Send the results of a function on messages, exactly once.

    FUNCTION of MODULE returns a DataFrame for a DataFrame.
    """
    from rsmq.spark.pipelines.between import load_function  # noqa: PLC0415 - as above
    from rsmq.spark.pipelines.queues import refuse_loop  # noqa: PLC0415 - needs the extra

    queues, function, to = of.pop("queues"), of.pop("function"), of.pop("to")
    try:
        loaded = load_function(function)
    except InvalidOption as error:
        if "SESSION_OR_CONTEXT_NOT_EXISTS" not in str(error.__cause__):
            raise
        loaded = None  # the module needs the session, as for a UDF with the name of a type

    def call_function(frame: Any) -> Any:
        return (loaded or load_function(function))(frame)

    is_verbose = click.get_current_context().params["verbose"]
    guarded = guard_function(call_function, function, is_verbose=is_verbose)
    source = own_queues(call, of)
    target = other_queues("to_", of, source)
    target.require_one_namespace()
    source.require(queues)
    target.require([to] if to is not None and not of["create"] else [])
    refuse_loop(source, queues, target, to)
    return source, queues, target, to, guarded


@_job(
    "redrive DEAD_LETTER_QUEUE",
    "rsmq pipeline redrive orders-dead --to \"'orders'\" --otherwise rest --checkpoint progress",
    streams=True,
)
@options("""
    --to SQL  An SQL expression over queue, id, message, sent ... that returns a queue name.
        [required]
    --otherwise QUEUE  The queue for messages for which --to returns NULL or no existing queue.
        [required]
    """)
@_CHECKPOINT
@_BATCH
@place_options()
def redrive(call: Call, of: dict[str, Any]) -> tuple[Any, ...]:
    """Send dead letters to queues that an SQL expression chooses."""
    from rsmq.spark.pipelines.queues import refuse_loop  # noqa: PLC0415 - needs the extra

    dead, to, otherwise = of.pop("dead_letter_queue"), of.pop("to"), of.pop("otherwise")
    queues = own_queues(call, of)
    queues.require_one_namespace()
    queues.require([dead, otherwise])
    refuse_loop(queues, dead, queues, otherwise, option="otherwise")
    return queues, dead, to, otherwise


@_job("report [QUEUE,...]", "rsmq pipeline report orders --html report.html")
@options("""
    --path FOLDER  The folder for Parquet and PNG files.
    --html FILE  The file for one HTML page with tables and plots.
    """)
@place_options()
def report(call: Call, of: dict[str, Any]) -> tuple[Any, ...]:
    """Report the contents of queues, and change nothing."""
    place = own_queues(call, of, of["queues"] or [])
    return place, of.pop("queues")


@_job("drain QUEUE,...", "rsmq pipeline drain orders --path drained/ --kind json", streams=True)
@options("""
    --path FOLDER  The folder for the files.
    --kind [json|csv|parquet|text|none]  The format of the files; none removes the messages without
        writing them.  [default: json]
    """)
@_optional_checkpoint("_checkpoint in the folder")
@_BATCH
@place_options()
def drain(call: Call, of: dict[str, Any]) -> tuple[Any, ...]:
    """Remove all visible messages, into files or for good."""
    source = own_queues(call, of, of["queues"])
    return source, of.pop("queues"), of.pop("path")


def _run_job(
    call: Call, name: str, prepare: Preparation, of: dict[str, Any], *, streams: bool
) -> int:
    """
    Run a job, and return the exit code: 1 also if a migration has found differences.

    Raises:
        Failed: the job failed on Spark.
        MissingExtra: the extra ``spark`` is not installed.
    """
    from rsmq.spark import pipelines  # noqa: PLC0415 - needs the extra
    from rsmq.spark.pipelines.session import check_environment  # noqa: PLC0415 - as above
    from rsmq.spark.pipelines.streams import require_streams  # noqa: PLC0415 - as above

    master, is_verbose, follow = of.pop("master"), of.pop("verbose"), of.get("follow", False)
    configure_logging(is_verbose=is_verbose)
    spark = None
    with end_by_sigterm() as is_terminated:
        try:
            # Before Spark starts, which takes seconds: wrong arguments raise here.
            if streams and not of.get("keep"):
                require_streams()
            arguments = prepare(call, of)
            check_environment(master)
            with hide_output_of_spark(is_verbose=is_verbose):
                spark = pipelines.session(f"rsmq-pipeline {name}", master)
            tell = partial(_write_progress, call.out)
            result = getattr(pipelines, name)(spark, *arguments, **of, tell=tell)
        except Exception as error:
            if not is_of_spark(error):
                raise
            raise describe_job_error(error, is_verbose=is_verbose) from None
        finally:
            if spark is not None:
                with suppress(Exception):  # Spark itself may have ended, by the same signal
                    spark.stop()
    fields = dataclasses.asdict(result)
    call.out.result({"result": fields}, format_result(fields))
    if follow and not is_terminated.is_set():
        return Exit.INTERRUPTED  # such a job ends by a signal
    return Exit.DONE if getattr(result, "verified", True) else Exit.NOT_ALL


def format_result(fields: dict[str, Any]) -> Iterator[str]:
    """Return the fields of a result as lines: lists of rows as tables."""
    for name, value in fields.items():
        if isinstance(value, list | tuple) and value and isinstance(value[0], dict):
            yield ""
            yield name
            yield from format_rows(value)
        elif isinstance(value, list | tuple):
            yield f"{name}: {' '.join(map(str, value))}"
        else:
            yield f"{name}: {_format_value(value)}"


def format_rows(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return rows as the lines of a table."""
    return format_table(list(rows[0]), [list(row.values()) for row in rows], show=_format_value)


def _format_value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if type(value) is int else escape_unprintable(format_cell(value))


def _write_progress(out: Output, progress: JobProgress) -> None:
    if out.as_json:
        out.result({"progress": dataclasses.asdict(progress)}, ())
        out.flush()
        return
    parts = [f"{progress.job}: {progress.step}"]
    if progress.messages:
        parts.append(format_count(progress.messages))
    if progress.per_second:
        parts.append(f"{progress.per_second:,.0f}/s")
    if progress.backlog is not None:
        parts.append(f"{progress.backlog:,} still visible")
    if progress.lost:
        parts.append(f"{progress.lost:,} taken by others")
    out.note(", ".join(parts))


def _require_files(path: str) -> None:
    """Check that a path exists, if it is one of this machine and not a pattern."""
    is_elsewhere = "://" in path or {"HADOOP_CONF_DIR", "PYSPARK_GATEWAY_PORT"} & os.environ.keys()
    if is_elsewhere or set(path) & set("*?[{") or Path(path.removeprefix("file:")).exists():
        return
    raise Failed(f"{path}: there is no such file or folder", exit=Exit.NOT_ALL, code="file")


if __name__ == "__main__":
    sys.exit(run(pipeline, "rsmq-pipeline"))
