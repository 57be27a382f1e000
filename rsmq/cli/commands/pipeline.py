"""
``rsmq-pipeline`` and ``rsmq pipeline``: the jobs of ``rsmq.spark.pipelines`` as commands.

It needs the extra ``spark`` alone: no click and no rich.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rsmq.cli.app.call import Call
from rsmq.cli.app.errors import Failed
from rsmq.cli.app.exit_codes import Exit
from rsmq.cli.app.output import Output, format_cell, format_table
from rsmq.cli.app.run import run_program
from rsmq.cli.commands.pipeline_arguments import make_parser
from rsmq.cli.commands.pipeline_errors import (
    configure_logging,
    describe_job_error,
    end_by_sigterm,
    guard_function,
    hide_output_of_spark,
    is_of_spark,
)
from rsmq.errors import InvalidOption
from rsmq.printable import escape_unprintable, format_count
from rsmq.transport.url import split_password, split_sentinel_password

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rsmq.spark.pipelines.progress import JobProgress, ProgressCallback
    from rsmq.spark.pipelines.queues import Queues

#: The environment variable that passes the password of a URL to the processes of Spark.
PASSWORD_VARIABLE = "RSMQ_PIPELINE_PASSWORD"  # noqa: S105 - a name
#: The same for the password of the Sentinels.
SENTINEL_PASSWORD_VARIABLE = "RSMQ_PIPELINE_SENTINEL_PASSWORD"  # noqa: S105 - a name

_SHARED_HINT = "Pass URLs without one, and --password-env or --password-file: one password for all."

Job = Callable[["SparkSession", "ProgressCallback"], Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run ``rsmq-pipeline``.

    Args:
        arguments: the arguments of the command line; None takes those of the process.

    Returns:
        The exit code, one of ``rsmq``; 1 also if a migration found differences.
    """
    call = Call()
    arguments = sys.argv[1:] if arguments is None else arguments
    return run_program(
        "rsmq-pipeline",
        lambda: run(call, parse(call, arguments, "rsmq-pipeline")),
        as_json=lambda: "--json" in arguments,
    )


def parse(call: Call, arguments: Sequence[str], name: str) -> argparse.Namespace:
    """
    Parse the arguments; wrong ones end the process with a usage text and code 2.

    Args:
        call: the options, the environment and the profile; ``arguments`` have precedence.
        arguments: the arguments of the command line.
        name: the name of the program in the usage text.
    """
    is_migration = list(arguments[:1]) == ["migrate"]
    if is_migration and {"url", "ns", "cells", "profile"} & call.options.keys():
        raise Failed("A migration has two places: give --from-url and --to-url.")
    args = make_parser(name).parse_args(arguments)
    args.json = args.json or call.as_json
    for option in ("url", "from_url", "to_url"):
        if urls := getattr(args, option, None):
            setattr(args, option, " ".join(urls))
    if not is_migration:
        _add_location(call, args)
    return args


def run(call: Call, args: argparse.Namespace) -> int:
    """
    Run a job.

    Args:
        args: the parsed arguments.

    Returns:
        The exit code.

    Raises:
        Failed: the job failed on Spark.
        MissingExtra: the extra ``spark`` is not installed.
    """
    _require_spark()
    from rsmq.spark import pipelines  # noqa: PLC0415 - needs the extra
    from rsmq.spark.pipelines.session import check_environment  # noqa: PLC0415 - as above

    out = call.with_options(json=args.json).out
    configure_logging(is_verbose=args.verbose)
    spark = None
    with end_by_sigterm() as is_terminated:
        try:
            # Before Spark starts, which takes seconds: wrong arguments raise here.
            job = _JOBS[args.command](args)
            check_environment(args.master)
            with hide_output_of_spark(is_verbose=args.verbose):
                spark = pipelines.session(f"rsmq-pipeline {args.command}", args.master)
            result = job(spark, lambda progress: _write_progress(out, progress))
        except Exception as error:
            if not is_of_spark(error):
                raise
            raise describe_job_error(error, is_verbose=args.verbose) from None
        finally:
            if spark is not None:
                with suppress(Exception):  # Spark itself may have ended, by the same signal
                    spark.stop()
    fields = dataclasses.asdict(result)
    out.result({"result": fields}, format_result(fields))
    if getattr(args, "follow", False) and not is_terminated.is_set():
        return Exit.INTERRUPTED  # such a job ends by a signal
    return Exit.DONE if getattr(result, "verified", True) else Exit.NOT_ALL


def _require_spark() -> None:
    import rsmq.spark  # noqa: F401, PLC0415 - raises MissingExtra


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
    names = list(rows[0])
    cells = [[_format_value(row[name]) for name in names] for row in rows]
    numbers = [
        column
        for column, name in enumerate(names)
        if all(isinstance(row[name], int | float | None) for row in rows)
    ]
    return format_table(names, cells, number_columns=numbers)


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


def _add_location(call: Call, args: argparse.Namespace) -> None:
    """Add the location of the queues that the arguments of a job leave open."""
    configured = call.configured_place
    args.any_names = args.any_names or call.any_names
    # A namespace with a hash tag is one cell.
    if args.cells is None and "{" not in (args.ns or ""):
        args.cells = configured.cells
    args.ns = args.ns or configured.ns
    if args.url is None and configured.urls is not None:
        urls, passwords = zip(*map(split_password, configured.urls), strict=True)
        urls, sentinel_passwords = zip(*map(split_sentinel_password, urls), strict=True)
        args.url = " ".join(urls)
        if len(set(passwords)) > 1 or len(set(sentinel_passwords)) > 1:
            raise Failed("The URLs of cells have different passwords", hint=_SHARED_HINT)
        # Not as options, because Spark shows options in its query plans.
        if passwords[0] is not None and not (args.password_env or args.password_file):
            os.environ[PASSWORD_VARIABLE] = passwords[0]
            args.password_env = PASSWORD_VARIABLE
        if sentinel_passwords[0] is not None and not (
            args.sentinel_password_env or args.sentinel_password_file
        ):
            os.environ[SENTINEL_PASSWORD_VARIABLE] = sentinel_passwords[0]
            args.sentinel_password_env = SENTINEL_PASSWORD_VARIABLE


def _make_queues(
    args: argparse.Namespace, prefix: str = "", default: Queues | None = None
) -> Queues:
    from rsmq.spark.pipelines.queues import Queues  # noqa: PLC0415 - needs the extra

    options = {
        name: getattr(args, f"{prefix}{name}")
        for name in (
            "url",
            "ns",
            "cells",
            "password_env",
            "password_file",
            "sentinel_password_env",
            "sentinel_password_file",
        )
    }
    present = {name: value for name, value in options.items() if value is not None}
    if default is not None and "url" not in present:
        if "{" in present.get("ns", ""):  # one cell
            present.setdefault("cells", None)
        queues = dataclasses.replace(default, **present)
    else:
        queues = Queues(**present, strict_names=not getattr(args, f"{prefix}any_names"))
    queues.reach()
    return queues


def _require_queues(queues: Queues, names: Iterable[str | None]) -> None:
    queues.require([name for name in names if name is not None])


def _require_files(path: str) -> None:
    """Check that a path exists, if it is one of this machine and not a pattern."""
    is_elsewhere = "://" in path or {"HADOOP_CONF_DIR", "PYSPARK_GATEWAY_PORT"} & os.environ.keys()
    if is_elsewhere or set(path) & set("*?[{") or Path(path.removeprefix("file:")).exists():
        return
    raise Failed(f"{path}: there is no such file or folder", exit=Exit.NOT_ALL, code="file")


def _archive(args: argparse.Namespace) -> Job:
    from rsmq.spark import pipelines  # noqa: PLC0415 - needs the extra

    source = _make_queues(args)
    _require_queues(source, args.queues)
    return lambda spark, callback: pipelines.archive(
        spark, source, args.queues, args.path, checkpoint=args.checkpoint, follow=args.follow,
        keep=args.keep, text=args.text, batch=args.batch, tell=callback,
    )  # fmt: skip


def _replay(args: argparse.Namespace) -> Job:
    from rsmq.spark import pipelines  # noqa: PLC0415 - needs the extra

    _require_files(args.path)
    target = _make_queues(args)
    _require_queues(target, [] if args.create else [args.queue])
    return lambda spark, callback: pipelines.replay(
        spark, args.path, target, args.queue, kind=args.kind, date=args.date, where=args.where,
        restore=args.restore, create=args.create, write_id=args.write_id, tell=callback,
    )  # fmt: skip


def _migrate(args: argparse.Namespace) -> Job:
    from rsmq.spark import pipelines  # noqa: PLC0415 - needs the extra

    source, target = _make_queues(args, "from_"), _make_queues(args, "to_")
    _require_queues(source, args.queues or [])
    return lambda spark, callback: pipelines.migrate(
        spark, source, target, args.queues, tell=callback
    )


def _transform(args: argparse.Namespace) -> Job:
    from rsmq.spark import pipelines  # noqa: PLC0415 - needs the extra
    from rsmq.spark.pipelines.queues import refuse_loop  # noqa: PLC0415 - as above
    from rsmq.spark.pipelines.transform import load_function  # noqa: PLC0415 - as above

    try:
        loaded = load_function(args.function)
    except InvalidOption as error:
        if "SESSION_OR_CONTEXT_NOT_EXISTS" not in str(error.__cause__):
            raise
        loaded = None  # the module needs the session, as for a UDF with the name of a type

    def function(frame: Any) -> Any:
        return (loaded or load_function(args.function))(frame)

    source = _make_queues(args)
    target = _make_queues(args, "to_", source)
    _require_queues(source, args.queues)
    _require_queues(target, [] if args.create else [args.to])
    refuse_loop(source, args.queues, target, args.to)
    return lambda spark, callback: pipelines.transform(
        spark, source, args.queues, target, args.to,
        guard_function(function, args.function, is_verbose=args.verbose),
        checkpoint=args.checkpoint, follow=args.follow, create=args.create, binary=args.binary,
        batch=args.batch, tell=callback,
    )  # fmt: skip


def _redrive(args: argparse.Namespace) -> Job:
    from rsmq.spark import pipelines  # noqa: PLC0415 - needs the extra
    from rsmq.spark.pipelines.queues import refuse_loop  # noqa: PLC0415 - as above

    queues = _make_queues(args)
    _require_queues(queues, [args.dead_letter_queue, args.otherwise])
    refuse_loop(queues, args.dead_letter_queue, queues, args.otherwise, option="otherwise")
    return lambda spark, callback: pipelines.redrive(
        spark, queues, args.dead_letter_queue, args.to, args.otherwise, checkpoint=args.checkpoint,
        batch=args.batch, tell=callback,
    )  # fmt: skip


def _report(args: argparse.Namespace) -> Job:
    from rsmq.spark import pipelines  # noqa: PLC0415 - needs the extra

    queues = _make_queues(args)
    _require_queues(queues, args.queues or [])
    return lambda spark, callback: pipelines.report(
        spark, queues, args.queues, path=args.path, html=args.html, tell=callback
    )


def _drain(args: argparse.Namespace) -> Job:
    from rsmq.spark import pipelines  # noqa: PLC0415 - needs the extra

    source = _make_queues(args)
    _require_queues(source, args.queues)
    return lambda spark, callback: pipelines.drain(
        spark, source, args.queues, args.path, checkpoint=args.checkpoint, kind=args.kind,
        batch=args.batch, tell=callback,
    )  # fmt: skip


_JOBS: dict[str, Callable[[argparse.Namespace], Job]] = {
    "archive": _archive,
    "replay": _replay,
    "migrate": _migrate,
    "transform": _transform,
    "redrive": _redrive,
    "report": _report,
    "drain": _drain,
}


if __name__ == "__main__":
    sys.exit(main())
