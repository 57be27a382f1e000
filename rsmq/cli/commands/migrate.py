"""
The command migrate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command, options
from rsmq.cli.app.errors import Exit, Failed, describe_in_line
from rsmq.cli.commands.foreign_systems import (
    complete_systems,
    make_source,
    open_servers,
    parse_name,
    progress_bars,
    rqueue_options,
)
from rsmq.errors import InvalidFormat, RSMQError
from rsmq.wire.keys import Namespace

if TYPE_CHECKING:
    from rsmq.migrate import Report, Server, Source

_Migration: TypeAlias = "Callable[..., Report]"


@command(
    "migrate",
    "rsmq migrate --from rfq --dry-run",
    "rsmq migrate --from rfq:ndvi --copy",
    "rsmq migrate --from list:work --to jobs --move --processing 'w*-queue' --in-flight",
    "rsmq migrate --from rsmq:orders --from-url redis://old/0 --move",
    "rsmq migrate --from rfq:ndvi --verify",
)
@options(
    """
    --from, origin SYSTEM[:NAME]  The source: rfq:TOPIC, list:KEY, rqueue:QUEUE, redisrq:KEY or
        rsmq:QUEUE; without a name, all queues of the system.  [required]
    --to QUEUE  The target queue; by default it has the name of the source queue.
    --copy  Do not change the source.
    --move  Remove the messages from the source.
    --in-flight  For a move: also move messages that are in flight.
    --finish  For a copy: delete the record of copied messages, if all were found in the queue. A
        later copy adds all messages again.
    --dry-run  Change nothing, and report what would happen.
    --verify  Change nothing, and compare the messages of the source with those of the target queue.
    --from-url URL  The URL of Redis for the source; that of --url by default.
    --from-ns NAME  For rsmq: the namespace of the source; that of --ns by default.
    --processing PATTERN...  For list: the keys of the workers' processing lists; * matches any
        text. Repeatable.
    """,
    origin={"shell_complete": complete_systems},
)
@rqueue_options
@options("""
    --no-colon  For rsmq: queues of rsmq_async before 10.0, whose keys have no colon after the
        namespace.
    --milliseconds  For rsmq: queues of rsmq_async 8 to 18, which stores vt and delay in ms.
    """)
def migrate(call: Call, /, *, origin: str, to: str | None, **options: Any) -> Exit:
    """
    Copy or move queues of another system.

    A message is in flight if a consumer has received it, and has not yet deleted or acknowledged
    it.

    A copy does not change the source. It can be repeated: a record of the copied messages, beside
    the target queue and for 30 days, prevents that a message is added twice, or again after it was
    consumed. Use --finish in the last run: it deletes the record.

    A move removes messages from the source, and begins with the one that is received next. Between
    two servers, messages are set aside first: they are in a hash on the server of the source until
    they are in the target queue.

    Both can be interrupted at any moment, and the next run continues. Bodies, order, sent times,
    receive counts and due times are kept. The report names properties that a queue can't store. The
    exit code is 1 if there is no queue, a queue fails, or the check after the run does not find
    every message.
    """
    kind, queue = parse_name(origin)
    _check_options(kind, queue, to, options)
    from rsmq.migrate import copy, move, verify  # noqa: PLC0415 - takes time

    run: _Migration
    if options["verify"]:
        run = verify
    elif options["copy"]:
        run = partial(copy, finish=options["finish"], dry_run=options["dry_run"])
    else:
        run = partial(move, in_flight=options["in_flight"], dry_run=options["dry_run"])
    with open_servers(call, options["from_url"], options["from_ns"]) as (own, other):
        source = make_source(kind, other, options)
        names = source.queues() if queue is None else [queue]
        migrated = _migrate_all(call, run, source, names, own, to=to)
    if queue is not None and migrated.failures:
        raise migrated.failures[0][1]
    lines = [line for each in migrated.reports for line in each.as_text().splitlines()]
    failures = {name: describe_in_line(error) for name, error in migrated.failures}
    lines += [f"{kind}:{name}: {line}" for name, line in failures.items()]
    result = {"queues": [each.as_dict() for each in migrated.reports], "failed": failures}
    if lines or migrated.ending is None:
        call.out.result(result, lines or f"{kind}: no queues with messages")
    if migrated.ending is not None:
        raise migrated.ending
    is_done = bool(migrated.reports) and all(each.done for each in migrated.reports)
    return Exit.DONE if is_done and not failures else Exit.NOT_ALL


def _check_options(kind: str, queue: str | None, to: str | None, of: Mapping[str, Any]) -> None:
    """Raise a usage error if options contradict each other."""
    is_change = of["copy"] or of["move"]
    if of["copy"] and of["move"]:
        raise click.UsageError("--copy and --move exclude each other.")
    if of["verify"] and (is_change or of["in_flight"] or of["dry_run"]):
        raise click.UsageError("--verify changes nothing, so it goes without --copy and --move.")
    if not (is_change or of["dry_run"] or of["verify"]):
        raise click.UsageError(
            "Give --copy or --move; --dry-run, to see what there is; or --verify, to compare."
        )
    if of["in_flight"] and of["copy"]:
        raise click.UsageError("--in-flight is for --move: a copy has all messages.")
    if of["finish"] and not of["copy"]:
        raise click.UsageError("--finish is for --copy.")
    if kind == "list" and queue is None and not of["dry_run"]:
        raise click.UsageError(
            "Name the list, as in list:work: rsmq can't know which lists are queues. --dry-run "
            "shows all."
        )
    if to is not None and queue is None:
        raise click.UsageError(f"--to is for one queue: name it, as in {kind}:NAME.")
    if of["schedules"] and of["copy"]:
        raise click.UsageError(
            "--schedules is for --move: after a copy, both systems would send the messages."
        )


@dataclass(slots=True)
class _Migrated:
    """
    The results of the migration of several queues.

    Attributes:
        reports: the reports of queues that were migrated.
        failures: the queues that can't be migrated, and why.
        ending: the error of Redis that ended the run before the last queue.
    """

    reports: list[Report] = field(default_factory=list)
    failures: list[tuple[str, RSMQError]] = field(default_factory=list)
    ending: Exception | None = None


def _migrate_all(
    call: Call, run: _Migration, source: Source, names: list[str], own: Server, *, to: str | None
) -> _Migrated:
    """Migrate queues, one after the other, until all are done or Redis fails."""
    from redis.exceptions import RedisError  # noqa: PLC0415 - takes time

    migrated = _Migrated()
    for name in names:
        try:
            _check_name(call, to or name)
            with progress_bars(call) as report_progress:
                migrated.reports.append(run(source, name, own, to or name, tell=report_progress))
        except RSMQError as error:
            migrated.failures.append((name, error))
        except RedisError as error:
            migrated.ending = error
            break
        except KeyboardInterrupt:
            raise Failed(
                f"Interrupted, within {source.kind}:{name}",
                exit=Exit.INTERRUPTED,
                code="interrupted",
                hint="Nothing is lost: the same command continues.",
            ) from None
    return migrated


def _check_name(call: Call, name: str) -> None:
    try:
        Namespace(call.namespace, strict_names=not call.any_names).queue(name)
    except InvalidFormat as error:
        raise InvalidFormat(
            "qname",
            value=name,
            hint=f"{name!r} is not a name that Node allows for a queue: pass another one with "
            "--to, or --any-names.",
        ) from error
