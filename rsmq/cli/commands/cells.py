"""
The command cells.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command
from rsmq.cli.app.errors import describe_error
from rsmq.cli.app.exit_codes import Exit
from rsmq.cli.app.output import format_table, format_text

if TYPE_CHECKING:
    from rsmq._sync.client import RSMQ
    from rsmq.figures import QueueReader
    from rsmq.operations.cells import CellRecord

_HEADINGS = ("cell", "namespace", "server", "queues", "messages", "state")


@command("cells", "rsmq cells --cells 12", "rsmq cells --cells 12 --json")
@click.pass_obj
def cells(call: Call) -> Exit | None:
    """
    Show the cells of a set.

    Each cell is an ordinary namespace: a client of any language can use it by this name, on this
    server. A cell is "unused" if no client of the set has used it yet, and of "another set" if its
    record says so. Nothing is changed. The exit code is 1 if a cell can't be reached or belongs to
    another set, and 4 if none can be reached.
    """
    from redis.exceptions import RedisError  # noqa: PLC0415 - takes time

    from rsmq.cells.records import find_mismatches  # noqa: PLC0415 - as above
    from rsmq.errors import CellsMismatch  # noqa: PLC0415 - as above
    from rsmq.figures import QueueReader  # noqa: PLC0415 - as above

    if call.cells is None:
        raise click.UsageError("This shows the cells of a set: add --cells N.")
    with call.open_queues() as rsmq:
        reader = QueueReader(rsmq)
        with suppress(RedisError, OSError, CellsMismatch):  # shown for each cell
            reader.begin_round(())
        mismatches = find_mismatches(reader.records, len(rsmq.cells))
        rows = [
            _make_row(reader, cell, client, mismatches.get(cell))
            for cell, client in enumerate(rsmq.cells)
        ]
    call.out.result(rows, format_table(_HEADINGS, [tuple(row.values())[:-1] for row in rows]))
    for row in rows:
        if row["error"] is not None:
            call.out.note(f"cell {row['cell']}: {row['error']}")
    if len(reader.failures) == len(rows):
        return Exit.UNREACHABLE
    return None if all(row["error"] is None for row in rows) else Exit.NOT_ALL


def _make_row(
    reader: QueueReader,
    cell: int,
    client: RSMQ[Any],
    mismatch: tuple[CellRecord, CellRecord] | None,
) -> dict[str, Any]:
    from rsmq.cells.records import describe_record  # noqa: PLC0415 - takes time

    numbers: tuple[int | None, int | None] = reader.count_in_cell(cell)
    state, error = "ok", None
    if cell in reader.failures:
        failure = reader.failures[cell]
        report = describe_error(failure)
        state, error = "unreachable", str(failure) if report is None else report.text
        numbers = None, None
    elif mismatch is not None:
        stored, expected = map(describe_record, mismatch)
        state, error = "another set", f"It is {stored}, and not {expected}"
    elif reader.records.get(cell) is None:
        state = "unused"
    return {
        "cell": cell,
        "ns": client.namespace.name,
        "server": _find_server(client),
        "queues": numbers[0],
        "messages": numbers[1],
        "state": state,
        "error": error,
    }


def _find_server(client: RSMQ[Any]) -> str | None:
    """Return the address of the server of a cell, without user and password; None if unknown."""
    if client.address is not None:
        return f"{client.address.host}:{client.address.port}"
    url = urlsplit(client.origin.url or "")
    if "+" in url.scheme:
        return None
    if url.scheme == "unix":
        return format_text(url.path)
    return f"{url.hostname or 'localhost'}:{url.port or 6379}" if url.scheme else None
