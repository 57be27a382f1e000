"""
The arguments of ``rsmq-pipeline``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

_DESCRIPTION = (
    "Jobs on RSMQ queues that run on Spark. Here they take this machine's processors; with "
    'spark-submit "$(rsmq-pipeline --file)" COMMAND ... a cluster\'s.'
)


def make_parser(name: str = "rsmq-pipeline") -> argparse.ArgumentParser:
    """Return the parser of the arguments, under a name of the program."""
    root = argparse.ArgumentParser(name, description=_DESCRIPTION)
    root.add_argument(
        "--file",
        action="version",
        version=str(Path(__file__).with_name("pipeline.py")),
        help="show the file that spark-submit takes, and end",
    )
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")

    archive = _command(commands, "archive", "move messages to Parquet, a folder a day")
    _from(archive)
    _queues(archive)
    archive.add_argument("path", help="the folder of the archive; a run adds to it")
    archive.add_argument("--follow", action="store_true", help="go on with what comes")
    archive.add_argument("--keep", action="store_true", help="copy, and leave the queues so")
    archive.add_argument("--text", action="store_true", help="store messages as text, not as bytes")
    _checkpoint(archive, "_checkpoint in the folder")

    replay = _command(commands, "replay", "send what files hold, in order, all or nothing")
    replay.add_argument("path", help="an archive, or other Parquet or JSON")
    _to(replay)
    replay.add_argument("--queue", help="the queue; without it each row's column queue")
    replay.add_argument("--kind", choices=("parquet", "json"), default="parquet")
    replay.add_argument("--date", help="the day of an archive, as 2026-01-31")
    replay.add_argument("--where", help="which rows, in SQL")
    replay.add_argument("--restore", action="store_true", help="keep ids, times and counters")
    replay.add_argument("--create", action="store_true", help="create queues that are missing")
    replay.add_argument("--write-id", help="a name under which this replay is done once")

    migrate = _command(commands, "migrate", "copy queues with ids, times and counters, and compare")
    _from(migrate, "--from-")
    _to(migrate, "--to-")
    migrate.add_argument("--queues", type=_names, help="names with commas between; all by default")

    transform = _command(commands, "transform", "from queue to queue through a function, once")
    _from(transform)
    _queues(transform)
    transform.add_argument("function", help="module:function, from a DataFrame to a DataFrame")
    _to(transform, "--to-")
    transform.add_argument("--to", help="the queue; without it each row's column queue")
    transform.add_argument("--create", action="store_true", help="create queues that are missing")
    transform.add_argument("--binary", action="store_true", help="messages are bytes, not text")
    transform.add_argument("--follow", action="store_true", help="go on with what comes")
    _checkpoint(transform)

    _looks_and_removals(commands)
    return root


def _looks_and_removals(commands: Any) -> None:
    redrive = _command(commands, "redrive", "send dead letters on, by what is wrong with them")
    _from(redrive)
    redrive.add_argument("dead_letter_queue")
    redrive.add_argument(
        "--to",
        required=True,
        help="an SQL expression over queue, id, message, sent ... that names one",
    )
    redrive.add_argument(
        "--otherwise", required=True, help="the queue for those for which it names none"
    )
    _checkpoint(redrive)

    report = _command(commands, "report", "what is in queues; nothing is changed")
    _from(report)
    report.add_argument("queues", nargs="?", type=_names, help="names with commas; all by default")
    report.add_argument("--path", help="a folder for Parquet and PNG files")

    drain = _command(commands, "drain", "take out all that is due, into files or nowhere")
    _from(drain)
    _queues(drain)
    drain.add_argument("--path", help="the folder for the files")
    drain.add_argument(
        "--kind", choices=("json", "csv", "parquet", "text", "none"), default="json",
        help="none removes the messages for good",
    )  # fmt: skip
    _checkpoint(drain, "_checkpoint in the folder")


def _command(commands: Any, name: str, help: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=help, description=help)
    command.add_argument("--master", help="where Spark runs; local[*,4] by default")
    command.add_argument("--json", action="store_true", help="tell all as JSON lines")
    if name in ("archive", "transform", "redrive", "drain"):
        command.add_argument("--batch", type=int, default=100_000, help="messages a batch at most")
    return command


def _from(command: argparse.ArgumentParser, prefix: str = "--") -> None:
    _place(command, prefix, "where the queues are")


def _to(command: argparse.ArgumentParser, prefix: str = "--") -> None:
    _place(command, prefix, "where the messages go")


def _place(command: argparse.ArgumentParser, prefix: str, title: str) -> None:
    group = command.add_argument_group(title)
    required = prefix == "--from-"
    optional = prefix == "--to-" and command.prog.endswith("transform")
    same = "; as the source's by default" if optional else ""
    default = None if optional or required else "redis://127.0.0.1:6379/0"
    group.add_argument(
        f"{prefix}url", default=default, required=required, metavar="URL",
        help=f"such as redis://127.0.0.1:6379/0, without a password{same}",
    )  # fmt: skip
    group.add_argument(f"{prefix}ns", default=None if optional else "rsmq", metavar="NAMESPACE")
    group.add_argument(f"{prefix}password-env", metavar="VARIABLE")
    group.add_argument(f"{prefix}password-file", metavar="FILE")
    group.add_argument(
        f"{prefix}any-names", action="store_true", help="also queue names that Node would refuse"
    )


def _queues(command: argparse.ArgumentParser) -> None:
    command.add_argument("queues", type=_names, help="a queue, or names with commas between")


def _checkpoint(command: argparse.ArgumentParser, default: str | None = None) -> None:
    command.add_argument(
        "--checkpoint",
        required=default is None,
        help="where Spark keeps how far this job is"
        + (f"; {default} by default" if default else ""),
    )


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]
