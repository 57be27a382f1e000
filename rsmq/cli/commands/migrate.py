"""
The command migrate.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command
from rsmq.cli.app.errors import Failed, describe_error
from rsmq.cli.app.exit_codes import Exit
from rsmq.cli.commands.foreign_systems import (
    SourceOptions,
    make_source,
    open_servers,
    parse_name,
    progress_bars,
)
from rsmq.errors import InvalidFormat, RSMQError
from rsmq.wire.keys import Namespace

if TYPE_CHECKING:
    from rsmq.migrate import Report


@command(
    "migrate",
    "rsmq migrate --from rfq --dry-run",
    "rsmq migrate --from rfq:ndvi --copy",
    "rsmq migrate --from list:work --to jobs --move --processing 'w*-queue' --in-flight",
    "rsmq migrate --from rsmq:orders --from-url redis://old/0 --move",
)
@click.option(
    "--from", "origin", required=True, metavar="SYSTEM[:NAME]",
    help="The source: rfq:TOPIC, list:KEY, rqueue:QUEUE, redisrq:KEY or rsmq:QUEUE; without a "
    "name, all queues of the system.",
)  # fmt: skip
@click.option(
    "--to",
    metavar="QUEUE",
    help="The target queue; by default it has the name of the source queue.",
)
@click.option("--copy", "way", flag_value="copy", help="Do not change the source.")
@click.option("--move", "way", flag_value="move", help="Remove the messages from the source.")
@click.option(
    "--in-flight", is_flag=True, help="For a move: also move messages that are in flight."
)
@click.option(
    "--finish",
    is_flag=True,
    help="For a copy: delete its record if it is verified. A later copy copies all again.",
)
@click.option("--dry-run", is_flag=True, help="Change nothing, and report what would happen.")
@click.option(
    "--from-url", metavar="URL", help="The URL of Redis for the source; that of --url by default."
)
@click.option(
    "--from-ns",
    metavar="NAME",
    help="For rsmq: the namespace of the source; that of --ns by default.",
)
@click.option(
    "--processing", multiple=True, metavar="PATTERN",
    help="For list: the keys of the workers' processing lists; * matches any text. Repeatable.",
)  # fmt: skip
@click.option(
    "--unwrap", is_flag=True, help="For rqueue: take msg as the body, without the Java class."
)
@click.option(
    "--no-colon", is_flag=True,
    help="For rsmq: queues of rsmq_async before 10.0, whose keys have no colon after the "
    "namespace.",
)  # fmt: skip
@click.option(
    "--milliseconds", is_flag=True,
    help="For rsmq: queues of rsmq_async 8 to 18, which stores vt and delay in ms.",
)  # fmt: skip
@click.pass_obj
def migrate(
    call: Call, /, *, origin: str, to: str | None, way: str | None, from_url: str | None,
    from_ns: str | None, processing: tuple[str, ...], in_flight: bool, finish: bool,
    dry_run: bool, unwrap: bool, no_colon: bool, milliseconds: bool,
) -> Exit:  # fmt: skip
    """
    Copy or move queues of another system.

    A copy can be repeated: each run adds the new messages, and none that was already consumed. Use
    --finish in the last run. A move begins with the message that is received next. Both can be
    interrupted at any moment, and the next run continues. Bodies, order, sent times, receive counts
    and due times are kept. The report names properties that a queue can't store. The exit code is 1
    if there is no queue, a queue fails, or the check after the run does not find every message.
    """
    kind, queue = parse_name(origin)
    if way is None and not dry_run:
        raise click.UsageError("Say --copy or --move; or --dry-run, to see what there is.")
    if in_flight and way == "copy":
        raise click.UsageError("--in-flight is for --move: a copy takes all along.")
    from rsmq.migrate import copy, move  # noqa: PLC0415 - takes time

    if finish and way != "copy":
        raise click.UsageError("--finish is for --copy.")
    if kind == "list" and queue is None and not dry_run:
        raise click.UsageError(
            "Name the list, as in list:work: which lists are queues, only you know. --dry-run "
            "shows all."
        )
    if to is not None and queue is None:
        raise click.UsageError(f"--to is for one queue: name it, as in {kind}:NAME.")
    options = SourceOptions(processing, unwrap, not no_colon, milliseconds)
    run: Callable[..., Report] = (
        partial(copy, finish=finish) if way == "copy" else partial(move, in_flight=in_flight)
    )
    with open_servers(call, from_url, from_ns) as (own, other):
        source = make_source(kind, other, options)
        names = source.queues() if queue is None else [queue]
        reports, failures = [], []
        for name in names:
            try:
                _check_name(call, to or name)
                with progress_bars(call) as report_progress:
                    reports.append(
                        run(source, name, own, to or name, dry_run=dry_run, tell=report_progress)
                    )
            except RSMQError as error:
                if queue is not None:
                    raise
                failures.append((name, error))
            except KeyboardInterrupt:
                raise Failed(
                    f"Interrupted, within {kind}:{name}",
                    exit=Exit.INTERRUPTED,
                    code="interrupted",
                    hint="Nothing is lost: the same command continues.",
                ) from None
    result = {
        "queues": [each.as_dict() for each in reports],
        "failed": dict(map(_describe_failure, failures)),
    }
    lines = [line for each in reports for line in each.as_text().splitlines()]
    lines += [f"{kind}:{name}: {line}" for name, line in map(_describe_failure, failures)]
    call.out.result(result, lines or f"{kind}: no queues with messages")
    done = not failures and bool(reports) and all(each.done for each in reports)
    return Exit.DONE if done else Exit.NOT_ALL


def _check_name(call: Call, name: str) -> None:
    location = call.location
    try:
        Namespace(location.ns, strict_names=not location.any_names).queue(name)
    except InvalidFormat as error:
        raise InvalidFormat(
            "qname",
            value=name,
            hint=f"{name!r} is not a name that Node allows for a queue: pass another one with "
            "--to, or --any-names.",
        ) from error


def _describe_failure(failed: tuple[str, RSMQError]) -> tuple[str, str]:
    name, error = failed
    report = describe_error(error)
    assert report is not None  # noqa: S101 - the library's errors are foreseen
    return name, report.line(as_json=False).removeprefix("rsmq: ")
