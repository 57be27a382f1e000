"""
The commands worker and pipeline, which pass their arguments on; and workers.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command
from rsmq.cli.app.exit_codes import Exit, Failed
from rsmq.cli.app.output import shown, shown_time, table
from rsmq.transport.url import check_url

#: The variable that hands the password of a url on to the processes of Spark.
_PASSWORD = "RSMQ_PIPELINE_PASSWORD"  # noqa: S105 - a name

_Function = Callable[..., int]


def _program(name: str) -> Callable[[_Function], click.Command]:
    """A command that hands all that follows it on, --help too."""

    def make(function: _Function) -> click.Command:
        taken = click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
        return click.command(
            name,
            add_help_option=False,
            context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
        )(click.pass_obj(taken(function)))

    return make


@_program("worker")
def worker(call: Call, arguments: tuple[str, ...]) -> int:
    """Run a worker, as rsmq-worker does."""
    from rsmq.cli.commands.worker import run  # noqa: PLC0415 - the worker takes time to import

    url, ns = call.said
    known = [f"--url={url}"] * bool(url) + [f"--ns={ns}"] * bool(ns)
    known += ["--log-format=json"] * call.as_json
    return run([*known, *arguments], "rsmq worker")


@_program("pipeline")
def pipeline(call: Call, arguments: tuple[str, ...]) -> int:
    """Run a job on Spark, as rsmq-pipeline."""
    import rsmq.spark  # noqa: F401, PLC0415 - says so if its extra is missing

    return _run_pipeline(call, arguments)


def _run_pipeline(call: Call, arguments: tuple[str, ...]) -> int:
    from pyspark.errors import PySparkException  # noqa: PLC0415 - needs an extra

    from rsmq.spark.pipelines.arguments import parser  # noqa: PLC0415 - as above
    from rsmq.spark.pipelines.command import run  # noqa: PLC0415 - as above
    from rsmq.spark.pipelines.telling import Teller, cause_of  # noqa: PLC0415 - as above

    given = parser("rsmq pipeline").parse_args(_with_place(call, list(arguments)))
    try:
        return run(given, Teller(as_json=given.json))
    except PySparkException as error:
        raise Failed(cause_of(str(error)), exit=Exit.NOT_ALL, code="spark") from None


def _with_place(call: Call, arguments: list[str]) -> list[str]:
    """The arguments, with where the queues are behind the name of the job; what follows wins."""
    if not arguments or arguments[0].startswith("-"):
        return arguments
    job, *rest = arguments
    if job == "migrate":
        if {"url", "ns", "profile"} & call.given.keys():
            raise click.UsageError("A migration has two places: give --from-url and --to-url.")
        return arguments
    url, ns = call.said
    known = ["--json"] * call.as_json + ["--any-names"] * call.place.any_names
    known += [f"--ns={ns}"] * bool(ns)
    if url:
        shown_url, password = _apart(url)
        known.append(f"--url={shown_url}")
        if password is not None:
            os.environ[_PASSWORD] = password
            known.append(f"--password-env={_PASSWORD}")
    return [job, *known, *rest]


def _apart(url: str) -> tuple[str, str | None]:
    """A url without its password, and the password: a plan of Spark would show it."""
    parts = urlsplit(check_url(url))
    user, colon, password = parts.netloc.rpartition("@")[0].partition(":")
    if not colon:
        return url, None
    host = parts.netloc.rpartition("@")[2]
    netloc = f"{user}@{host}" if user else host
    return urlunsplit(parts._replace(netloc=netloc)), unquote(password)


_HEADINGS = ("name", "alive", "since", "last seen", "host", "process", "holds", "handled", "failed")


@command("workers", "rsmq workers", "rsmq workers --json")
@click.pass_obj
def workers(call: Call) -> None:
    """
    Show the workers of the namespace.

    Those that are alive, and those that died within a day.
    """
    from rsmq.worker.registry import WorkerInfo, list_workers  # noqa: PLC0415 - takes time

    def row(each: WorkerInfo) -> tuple[Any, ...]:
        holds = ", ".join(f"{shown(queue)}: {number}" for queue, number in each.queues.items())
        times = shown_time(each.since_ms), shown_time(each.seen_ms)
        numbers = each.handled, each.failed
        return (each.name, each.alive, *times, shown(each.host), each.pid, holds or None, *numbers)

    with call.open() as rsmq:
        found = list_workers(rsmq)
    call.out.result(found, table(_HEADINGS, map(row, found)))
