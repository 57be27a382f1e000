"""
The command migrate.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command
from rsmq.cli.app.errors import Failed, ending_of
from rsmq.cli.app.exit_codes import Exit
from rsmq.cli.commands.foreign_systems import Options, bars, named, servers, source
from rsmq.errors import InvalidFormat, RSMQError
from rsmq.migrate import Report, copy, move
from rsmq.wire.keys import Namespace


@command(
    "migrate",
    "rsmq migrate --from rfq --dry-run",
    "rsmq migrate --from rfq:ndvi --copy",
    "rsmq migrate --from list:work --to jobs --move --processing 'w*-queue' --in-flight",
    "rsmq migrate --from rsmq:orders --from-url redis://old/0 --move",
)
@click.option(
    "--from", "origin", required=True, metavar="SYSTEM[:NAME]",
    help="rfq:TOPIC, list:KEY, rqueue:QUEUE, redisrq:KEY or rsmq:QUEUE; without a name all queues "
    "of the system.",
)  # fmt: skip
@click.option("--to", metavar="QUEUE", help="The queue; the name there by default.")
@click.option("--copy", "way", flag_value="copy", help="Leave the source as it is.")
@click.option("--move", "way", flag_value="move", help="Take from the source.")
@click.option("--in-flight", is_flag=True, help="Of a move: also what someone is handling.")
@click.option("--finish", is_flag=True, help="Of a copy: close it, when all is there.")
@click.option("--dry-run", is_flag=True, help="Change nothing, and tell what would happen.")
@click.option(
    "--from-url", metavar="URL", help="Redis of the source, if it is another than that of --url."
)
@click.option("--from-ns", metavar="NAME", help="Of rsmq: its namespace; that of --ns by default.")
@click.option(
    "--processing", multiple=True, metavar="PATTERN",
    help="Of list: keys of the workers' processing lists; * is anything. Repeatable.",
)  # fmt: skip
@click.option("--unwrap", is_flag=True, help="Of rqueue: the body is msg, without the Java class.")
@click.option(
    "--no-colon", is_flag=True,
    help="Of rsmq: queues of rsmq_async before 10.0, whose keys have no colon behind ns.",
)  # fmt: skip
@click.option(
    "--milliseconds", is_flag=True,
    help="Of rsmq: queues of rsmq_async 8 to 18, which stores vt and delay in ms.",
)  # fmt: skip
@click.pass_obj
def migrate(
    call: Call, /, *, origin: str, to: str | None, way: str | None, from_url: str | None,
    from_ns: str | None, processing: tuple[str, ...], in_flight: bool, finish: bool,
    dry_run: bool, unwrap: bool, no_colon: bool, milliseconds: bool,
) -> Exit:  # fmt: skip
    """
    Copy or move queues of another system.

    A copy may be run again and again: it adds what is new, and brings nothing back that was
    consumed; --finish is for the last time. A move takes the next message first. Both may be broken
    off at any moment, and go on when they are run again. Bodies, order, sent times, receive counts
    and due times are kept; what has no place in a queue is told. The exit code is 1 if not every
    message was found again where it must be.
    """
    kind, queue = named(origin)
    if way is None and not dry_run:
        raise click.UsageError("Say --copy or --move; or --dry-run, to see what there is.")
    if in_flight and way == "copy":
        raise click.UsageError("--in-flight is for --move: a copy takes all along.")
    if finish and way != "copy":
        raise click.UsageError("--finish is for --copy.")
    if kind == "list" and queue is None and not dry_run:
        raise click.UsageError(
            "Name the list, as in list:work: which lists are queues, only you know. --dry-run "
            "shows all."
        )
    if to is not None and queue is None:
        raise click.UsageError(f"--to is for one queue: name it, as in {kind}:NAME.")
    options = Options(processing, unwrap, not no_colon, milliseconds)
    run: Callable[..., Report] = (
        partial(copy, finish=finish) if way == "copy" else partial(move, in_flight=in_flight)
    )
    with servers(call, from_url, from_ns) as (own, other):
        found = source(kind, other, options)
        names = found.queues() if queue is None else [queue]
        reports, wrong = [], []
        for name in names:
            try:
                _check_name(call, to or name)
                with bars(call) as tell:
                    reports.append(run(found, name, own, to or name, dry_run=dry_run, tell=tell))
            except RSMQError as error:
                if queue is not None:
                    raise
                wrong.append((name, error))
            except KeyboardInterrupt:
                raise Failed(
                    f"Interrupted, within {kind}:{name}",
                    exit=Exit.INTERRUPTED,
                    code="interrupted",
                    hint="Nothing is lost: the same command goes on.",
                ) from None
    result = {"queues": [each.as_dict() for each in reports], "failed": dict(map(_told, wrong))}
    lines = [line for each in reports for line in each.as_text().splitlines()]
    lines += [f"{kind}:{name}: {line}" for name, line in map(_told, wrong)]
    call.out.result(result, lines or f"{kind}: no queues with messages")
    done = not wrong and bool(reports) and all(each.done for each in reports)
    return Exit.DONE if done else Exit.NOT_ALL


def _check_name(call: Call, name: str) -> None:
    place = call.place
    try:
        Namespace(place.ns, strict_names=not place.any_names).queue(name)
    except InvalidFormat as error:
        raise InvalidFormat(
            "qname",
            value=name,
            hint=f"{name!r} is no name that Node takes for a queue: give another with --to, or "
            "--any-names.",
        ) from error


def _told(failed: tuple[str, RSMQError]) -> tuple[str, str]:
    name, error = failed
    ending = ending_of(error)
    assert ending is not None  # noqa: S101 - the library's errors are foreseen
    return name, ending.line(as_json=False).removeprefix("rsmq: ")
