"""
The commands export and import.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command, queues_argument
from rsmq.cli.app.errors import Failed, worded
from rsmq.cli.app.exit_codes import Exit
from rsmq.cli.app.output import counted, plain, shown
from rsmq.errors import InvalidExport
from rsmq.transfer import (
    Exported,
    Imported,
    ImportedQueue,
    export_queues,
    files,
    import_queues,
)

_Bar = AbstractContextManager[Callable[[float], None]]


@command(
    "export",
    "rsmq export -o queues.jsonl.gz",
    "rsmq export orders mails > queues.jsonl",
    "rsmq export orders | rsmq import --url redis://other/0",
)
@queues_argument(required=False)
@click.option(
    "--output", "-o", metavar="FILE", type=click.Path(allow_dash=True),
    help="Where to; packed if it ends in .gz. - and the default are the standard output.",
)  # fmt: skip
@click.pass_obj
def export(call: Call, queues: tuple[str, ...], output: str | None) -> Exit:
    """
    Write queues to a file of JSON Lines.

    All that are listed, or those that are named, with attributes and all their messages. Producers
    and consumers may go on, and nothing is changed. FILE appears, or is replaced, once the export
    is whole. The exit code is 1 if a listed queue can't be read.
    """
    to_file = output not in {None, "-"}
    with call.open() as rsmq:
        total = sum(rsmq.get_queue_attributes(name).messages for name in queues)
        bar: _Bar = nullcontext(lambda _: None)
        if to_file or not sys.stdout.isatty():
            bar = call.out.progress("exporting", total or None)
        with bar as advance, files.writing(output) as file:
            exported = export_queues(rsmq, queues or None, file, tell=advance)
    lines = list(_lines_of_export(exported))
    if to_file:
        call.out.result({"file": output, **plain(exported)}, lines)
    else:
        for line in lines:
            call.out.note(line)
    return Exit.NOT_ALL if exported.left_out else Exit.DONE


def _lines_of_export(exported: Exported) -> Iterator[str]:
    for queue in exported.queues:
        line = f"{shown(queue.queue)}: {counted(queue.messages)}"
        if queue.ghosts:
            line += f"; {queue.ghosts} ids without a body are left out"
        if queue.deleted:
            line += "; it was deleted meanwhile"
        yield line
    for name, why in exported.left_out.items():
        yield f"{shown(name)}: left out. {worded(why)} rsmq doctor tells more."


@command(
    "import",
    "rsmq import queues.jsonl.gz",
    "rsmq import --queue orders=orders-copy --dry-run < queues.jsonl",
)
@click.argument("file", required=False, metavar="[FILE]", type=click.Path(allow_dash=True))
@click.option(
    "--queue", "names", multiple=True, metavar="NAME[=NEW]",
    help="Only this queue of the file, under a new name if one is given; repeatable.",
)  # fmt: skip
@click.option("--new-ids", is_flag=True, help="Send the messages anew: new ids, no counters.")
@click.option("--dry-run", is_flag=True, help="Change nothing, and tell what would happen.")
@click.pass_obj
def import_(
    call: Call, file: str | None, names: tuple[str, ...], *, new_ids: bool, dry_run: bool
) -> Exit:
    """
    Read queues from such a file.

    FILE is what export has written, packed or not; - and the default are the standard input. Queues
    that are missing are created with their attributes; those that exist keep theirs. A message
    keeps its id, counters and time, and stays as it is if it is there already: run again, this adds
    what is missing, also what was consumed meanwhile. The exit code is 1 if something can't be
    kept, or the file is cut off or was changed; what it has is added.
    """
    from_file = file not in {None, "-"}
    if not from_file and sys.stdin.isatty():
        raise click.UsageError("Give a file, or pipe one into the standard input.")
    size = Path(str(file)).stat().st_size if from_file else None
    queues = dict(_renamed(name) for name in names) or None
    bar = call.out.progress("importing", size or None, unit="bytes")
    try:
        with call.open() as rsmq, bar as advance, files.reading(file, advance) as opened:
            imported = import_queues(rsmq, opened, queues=queues, new_ids=new_ids, dry_run=dry_run)
    except InvalidExport as error:
        if error.value == 1:  # nothing was changed
            raise
        raise Failed(str(error), exit=Exit.NOT_ALL, code=error.code, hint=error.hint) from None
    lines = [line for queue in imported.queues for line in _lines_of(queue, dry_run=dry_run)]
    result = {**plain(imported), "complete": imported.complete, "dry_run": dry_run}
    call.out.result(result, [*lines, *_faults_of(imported)])
    return Exit.DONE if imported.complete else Exit.NOT_ALL


def _renamed(name: str) -> tuple[str, str]:
    old, separator, new = name.partition("=")
    return old, new if separator else old


def _lines_of(queue: ImportedQueue, *, dry_run: bool) -> Sequence[str]:
    name = shown(queue.queue)
    if queue.queue != queue.source:
        name = f"{shown(queue.source)} as {name}"
    line = f"{name}: {counted(queue.added)} {'would be added' if dry_run else 'added'}"
    if queue.present:
        line += f", {queue.present} are there already"
    if queue.left_out:
        line += f", {queue.left_out} left out"
    if queue.created:
        line += f"; the queue {'would be' if dry_run else 'was'} created"
    return [line, *(f"  {worded(note)}" for note in queue.notes)]


def _faults_of(imported: Imported) -> Iterator[str]:
    for name in imported.missing:
        yield f"{shown(name)}: the file has no such queue"
    if imported.fault:
        yield f"The file is not as it was exported: {imported.fault}."
