"""
The commands delete, visibility, release, get and peek.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command, options
from rsmq.cli.app.errors import Exit
from rsmq.cli.app.one_call import run_on_ids
from rsmq.cli.app.output import format_text
from rsmq.cli.commands.message_output import BodyFormat, raw_options, write_messages
from rsmq.model import State, StoredMessage


@command("release QUEUE [ID...]", "rsmq release orders ID ID", "rsmq release orders --all")
@options("--all, all_received  Release all messages that are in flight.")
def release(call: Call, queue: str, ids: tuple[str, ...], *, all_received: bool) -> Exit | None:
    """
    Make received messages visible again, in their old places.

    It releases the messages of all consumers. If a consumer still processes a message, another one
    can receive it at the same time. With an ID it also makes a delayed message visible; with --all
    only messages that were received. The exit code is 1 if an ID is not in the queue.
    """
    if all_received is bool(ids):
        raise click.UsageError("Give IDs or --all, one of them.")
    with call.open() as rsmq:
        if ids:
            return run_on_ids(
                call, ids, "released", lambda batch: rsmq.release_messages(queue, batch)
            )
        number = rsmq.release_all_messages(queue)
    call.out.result({"queue": queue, "released": number}, f"{number:,} released")
    return None


@command("get QUEUE ID...", "rsmq get orders ID", "rsmq get orders ID --raw > body")
@raw_options
def get(call: Call, queue: str, ids: tuple[str, ...], *, bodies: BodyFormat | None) -> Exit | None:
    """
    Show messages by their ids.

    Nothing is changed. The lines after a message are those of rsmq peek. The exit code is 1 if a
    message is not in the queue.
    """
    with call.open() as rsmq:
        found = {id: rsmq.get_message(queue, id) for id in ids}
        existing = [message for message in found.values() if message is not None]
        missing = [id for id, message in found.items() if message is None]
        holders = None if bodies else _find_holders(rsmq, existing)
    if existing or call.as_json:
        write_messages(call, existing, bodies, holders=holders)
    for id in missing:
        call.out.note(f"{format_text(id)}: not there")
    return Exit.NOT_ALL if missing else None


def _find_holders(rsmq: Any, messages: Sequence[StoredMessage]) -> dict[str, str]:
    """Return by message id the name of the worker that has the message in flight."""
    if all(each.state != "in_flight" for each in messages):
        return {}
    from rsmq.explain.reader import find_holders  # noqa: PLC0415 - takes time

    return find_holders(rsmq, messages)


@command(
    "peek QUEUE",
    "rsmq peek orders",
    "rsmq peek orders --start -10",
    "rsmq peek orders --state in_flight -n 100 --json",
)
@options(
    """
    --start N  The position of the first message, from 0; -1 is the last.  [default: 0]
    --count, --number, -n N  The highest number of messages, 1 to 10,000.  [default: 10]
    --state  Show only messages in this state; --start counts only them.
    """,
    state={"type": click.Choice(get_args(State))},
)
@raw_options
def peek(
    call: Call,
    queue: str,
    start: int,
    count: int,
    state: Any,
    *,
    bodies: BodyFormat | None,
) -> Exit | None:
    """
    Show messages by their positions in the queue.

    Nothing is changed. Messages are shown in the order in which they become visible. The line after
    a dead letter says why a worker has dead-lettered it, the line after a message that waits for a
    retry its last error, and the line after one in flight the worker that has it. On a terminal
    long bodies are cut off; rsmq get shows them in full. The exit code is 1 if there are no
    messages.
    """
    with call.open() as rsmq:
        messages = rsmq.peek_messages(queue, start, count, state=state)
        holders = None if bodies else _find_holders(rsmq, messages)
    return write_messages(call, messages, bodies, width=call.out.width, holders=holders)
