"""
The commands export and import.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command, options
from rsmq.cli.app.errors import WORDS, Exit, Failed
from rsmq.cli.app.output import format_text, to_json_value
from rsmq.cli.app.queue_names import expand_patterns
from rsmq.errors import InvalidExport
from rsmq.errors.hints import in_words
from rsmq.errors.printable import format_count

if TYPE_CHECKING:
    from rsmq.transfer import Exported, Imported, ImportedQueue

_Bar = AbstractContextManager[Callable[[float], None]]


@command(
    "export [QUEUE...]",
    "rsmq export -o queues.jsonl.gz",
    "rsmq export orders mails > queues.jsonl",
    "rsmq export orders | rsmq import --url redis://other/0",
)
@options(
    """
    --output, -o FILE  The output file, compressed with gzip if its name ends in .gz. - or no file:
        the standard output.
    """,
)
def export(call: Call, queues: tuple[str, ...], output: str | None) -> Exit:
    """
    Write queues to a file of JSON Lines.

    It exports the named queues, or all listed queues, with their attributes and all messages.
    Nothing is changed, and producers and consumers can use the queues meanwhile. FILE is created or
    replaced only when the export is complete. The exit code is 1 if a listed queue can't be read.
    """
    from rsmq.transfer import export_queues, files  # noqa: PLC0415 - takes time

    is_to_file = output not in {None, "-"}
    with call.open() as rsmq:
        queues = expand_patterns(rsmq, queues)
        total = sum(rsmq.get_queue_attributes(name).messages for name in queues)
        bar: _Bar = nullcontext(lambda _: None)
        if is_to_file or not sys.stdout.isatty():
            bar = call.out.progress("exporting", total or None)
        with bar as advance, files.writing(output) as file:
            exported = export_queues(rsmq, queues or None, file, tell=advance)
    lines = list(_export_lines(exported))
    if is_to_file:
        call.out.result({"file": output, **to_json_value(exported)}, lines)
    else:
        for line in lines:
            call.out.note(line)
    return Exit.NOT_ALL if exported.left_out else Exit.DONE


def _export_lines(exported: Exported) -> Iterator[str]:
    for queue in exported.queues:
        line = f"{format_text(queue.queue)}: {format_count(queue.messages)}"
        if queue.ghosts:
            line += f"; left out: {format_count(queue.ghosts, 'id')} without a body"
        if queue.left_behind:
            line += f"; not exported: {', '.join(queue.left_behind)}"
        if queue.deleted:
            line += "; it was deleted meanwhile"
        yield line
    for name, reason in exported.left_out.items():
        yield f"{format_text(name)}: left out. {in_words(reason, WORDS)} rsmq doctor reports more."


@command(
    "import [FILE]",
    "rsmq import queues.jsonl.gz",
    "rsmq import --queue orders=orders-copy --dry-run < queues.jsonl",
)
@options("""
    --queue, names NAME[=NEW]...  Import only this queue of the file, with NEW as its new name;
        repeatable.
    --new-ids  Send the messages again, with new ids and receive counts of 0.
    --dry-run  Change nothing, and report what would happen.
    """)
def import_(
    call: Call, file: str | None, names: tuple[str, ...], *, new_ids: bool, dry_run: bool
) -> Exit:
    """
    Add the queues of an export file to Redis.

    FILE is a file of rsmq export, compressed or not; - or no FILE is the standard input. Missing
    queues are created with their attributes. Existing queues keep their attributes. A message keeps
    its id, counters and times. A message that is already in the queue is not changed. So a second
    import adds the messages that are missing, also those that were consumed meanwhile. The exit
    code is 1 if something can't be kept, or if the file is truncated or was changed; its valid part
    is added.
    """
    from rsmq.transfer import files, import_queues  # noqa: PLC0415 - takes time

    is_from_file = file not in {None, "-"}
    if not is_from_file and sys.stdin.isatty():
        raise click.UsageError("Give a file, or pipe one into the standard input.")
    size = Path(str(file)).stat().st_size if is_from_file else None
    queues = dict(_parse_rename(name) for name in names) or None
    bar = call.out.progress("importing", size or None, unit="bytes")
    try:
        with call.open() as rsmq, bar as advance, files.reading(file, advance) as opened:
            imported = import_queues(rsmq, opened, queues=queues, new_ids=new_ids, dry_run=dry_run)
    except InvalidExport as error:
        if error.value == 1:  # nothing was changed
            raise
        raise Failed(
            error.summary, exit=Exit.NOT_ALL, code=error.code, hint=error.hint_in(WORDS)
        ) from None
    lines = [line for queue in imported.queues for line in _import_lines(queue, dry_run=dry_run)]
    result = {**to_json_value(imported), "complete": imported.complete, "dry_run": dry_run}
    call.out.result(result, [*lines, *_fault_lines(imported)])
    return Exit.DONE if imported.complete else Exit.NOT_ALL


def _parse_rename(name: str) -> tuple[str, str]:
    old, separator, new = name.partition("=")
    return old, new if separator else old


def _import_lines(queue: ImportedQueue, *, dry_run: bool) -> Sequence[str]:
    name = format_text(queue.queue)
    if queue.queue != queue.source:
        name = f"{format_text(queue.source)} as {name}"
    line = f"{name}: {format_count(queue.added)} {'would be added' if dry_run else 'added'}"
    if queue.present:
        line += f", {queue.present} are there already"
    if queue.left_out:
        line += f", {queue.left_out} left out"
    if queue.created:
        line += f"; the queue {'would be' if dry_run else 'was'} created"
    return [line, *(f"  {in_words(note, WORDS)}" for note in queue.notes)]


def _fault_lines(imported: Imported) -> Iterator[str]:
    for name in imported.missing:
        yield f"{format_text(name)}: the file has no such queue"
    if imported.fault:
        yield f"The file is not as it was exported: {imported.fault}."
