"""
The arguments of ``rsmq-pipeline``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rsmq.cli.app.argument_parser import RedactingParser

_DESCRIPTION = (
    "Run a job on RSMQ queues with Spark, on the processors of this machine. On a cluster: "
    'spark-submit "$(rsmq-pipeline --file)" COMMAND ...'
)


def make_parser(name: str = "rsmq-pipeline") -> argparse.ArgumentParser:
    """Return the parser of the arguments, under a name of the program."""
    root = RedactingParser(name, description=_DESCRIPTION)
    root.add_argument(
        "--file",
        action="version",
        version=str(Path(__file__).with_name("pipeline.py")),
        help="print the path of the file for spark-submit, and exit",
    )
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")

    archive = _add_command(
        commands, "archive", "move messages to Parquet files, one folder for each day"
    )
    _add_source_options(archive)
    _add_queues_argument(archive)
    archive.add_argument("path", help="the folder of the archive; each run adds files")
    archive.add_argument(
        "--follow", action="store_true", help="continue with new messages until it is stopped"
    )
    archive.add_argument(
        "--keep", action="store_true", help="copy the messages, and do not change the queues"
    )
    archive.add_argument(
        "--text", action="store_true", help="store messages as text instead of bytes"
    )
    _add_checkpoint_option(archive, "_checkpoint in the folder")

    replay = _add_command(commands, "replay", "send the messages of files, in order, all or none")
    replay.add_argument("path", help="an archive, or other Parquet or JSON files")
    _add_target_options(replay)
    replay.add_argument(
        "--queue", help="the target queue; by default that of the column queue of each row"
    )
    replay.add_argument("--kind", choices=("parquet", "json"), default="parquet")
    replay.add_argument("--date", help="only this day of an archive, as in 2026-01-31")
    replay.add_argument("--where", help="only the rows for which this SQL expression is true")
    replay.add_argument("--restore", action="store_true", help="keep ids, times and counters")
    replay.add_argument("--create", action="store_true", help="create missing queues")
    replay.add_argument("--write-id", help="a name: a replay with the same name is done only once")

    migrate = _add_command(
        commands, "migrate", "copy queues with ids, times and counters, and verify the copy"
    )
    _add_source_options(migrate, "--from-")
    _add_target_options(migrate, "--to-")
    migrate.add_argument(
        "--queues", type=_split_names, help="names, separated by commas; all queues by default"
    )

    transform = _add_command(
        commands,
        "transform",
        "apply a function to messages and send the results to a queue, exactly once",
    )
    _add_source_options(transform)
    _add_queues_argument(transform)
    transform.add_argument("function", help="module:function, from a DataFrame to a DataFrame")
    _add_target_options(transform, "--to-")
    transform.add_argument(
        "--to", help="the target queue; by default that of the column queue of each row"
    )
    transform.add_argument("--create", action="store_true", help="create missing queues")
    transform.add_argument(
        "--binary", action="store_true", help="pass messages as bytes instead of text"
    )
    transform.add_argument(
        "--follow", action="store_true", help="continue with new messages until it is stopped"
    )
    _add_checkpoint_option(transform)

    _add_further_commands(commands)
    return root


def _add_further_commands(commands: Any) -> None:
    redrive = _add_command(
        commands, "redrive", "send dead letters to queues that an SQL expression chooses"
    )
    _add_source_options(redrive)
    redrive.add_argument("dead_letter_queue")
    redrive.add_argument(
        "--to",
        required=True,
        help="an SQL expression over queue, id, message, sent ... that returns a queue name",
    )
    redrive.add_argument(
        "--otherwise",
        required=True,
        help="the queue for messages for which --to returns NULL or no existing queue",
    )
    _add_checkpoint_option(redrive)

    report = _add_command(commands, "report", "report the contents of queues; nothing is changed")
    _add_source_options(report)
    report.add_argument(
        "queues",
        nargs="?",
        type=_split_names,
        help="names, separated by commas; all queues by default",
    )
    report.add_argument("--path", help="the folder for Parquet and PNG files")
    report.add_argument("--html", help="the file for one HTML page with tables and plots")

    drain = _add_command(
        commands, "drain", "remove all visible messages, and write them to files or nowhere"
    )
    _add_source_options(drain)
    _add_queues_argument(drain)
    drain.add_argument("--path", help="the folder for the files")
    drain.add_argument(
        "--kind", choices=("json", "csv", "parquet", "text", "none"), default="json",
        help="the format of the files; none removes the messages without writing them",
    )  # fmt: skip
    _add_checkpoint_option(drain, "_checkpoint in the folder")


def _add_command(commands: Any, name: str, help: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=help, description=help)
    command.add_argument("--master", help="the URL of the Spark master; local[*,4] by default")
    command.add_argument(
        "--json", action="store_true", help="write progress and result as lines of JSON"
    )
    command.add_argument(
        "--verbose", action="store_true", help="show all that Spark writes, and traces of errors"
    )
    if name in ("archive", "transform", "redrive", "drain"):
        command.add_argument(
            "--batch", type=_parse_batch, default=100_000, help="the most messages of a batch"
        )
    return command


def _add_source_options(command: argparse.ArgumentParser, prefix: str = "--") -> None:
    _add_location_options(command, prefix, "the location of the queues")


def _add_target_options(command: argparse.ArgumentParser, prefix: str = "--") -> None:
    _add_location_options(command, prefix, "the location of the target queues")


def _add_location_options(command: argparse.ArgumentParser, prefix: str, title: str) -> None:
    group = command.add_argument_group(title)
    optional = prefix == "--to-" and command.prog.endswith("transform")
    required = prefix == "--from-" or (prefix == "--to-" and not optional)
    same = "; by default that of the source" if optional else ""
    group.add_argument(
        f"{prefix}url", required=required, action="append", metavar="URL",
        help=f"the URL, as in redis://127.0.0.1:6379/0, without a password{same}. With cells also "
        "one URL for each cell, in their order",
    )  # fmt: skip
    group.add_argument(
        f"{prefix}ns", metavar="NAMESPACE", help="the namespace, or the name of the set of cells"
    )
    group.add_argument(
        f"{prefix}cells", type=int, metavar="N", help="act on a set of cells: their number"
    )
    group.add_argument(f"{prefix}password-env", metavar="VARIABLE")
    group.add_argument(f"{prefix}password-file", metavar="FILE")
    group.add_argument(f"{prefix}sentinel-password-env", metavar="VARIABLE")
    group.add_argument(f"{prefix}sentinel-password-file", metavar="FILE")
    group.add_argument(
        f"{prefix}any-names",
        action="store_true",
        help="allow queue names that the Node client refuses",
    )


def _add_queues_argument(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "queues",
        type=_split_names,
        help="the name of a queue, or several names, separated by commas",
    )


def _add_checkpoint_option(command: argparse.ArgumentParser, default: str | None = None) -> None:
    command.add_argument(
        "--checkpoint",
        required=default is None,
        help="the folder in which Spark stores the progress of this job"
        + (f"; {default} by default" if default else ""),
    )


def _parse_batch(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"a batch has at least 1 message; got {number}")
    return number


def _split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]
