"""
The commands sweep and redrive.
"""

from __future__ import annotations

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import argument, command
from rsmq.cli.app.errors import Exit
from rsmq.cli.app.output import format_text
from rsmq.cli.app.send_options import call_options


@command("sweep QUEUE", "rsmq sweep orders")
@call_options("sweep_dead_letters")
def sweep(call: Call, queue: str, max_messages: int) -> Exit | None:
    """
    Move messages that were received too often.

    They are moved to the dead-letter queue. Use it for queues whose consumers do not apply
    dead-letter policies. It prints the ids of the moved messages. Messages that are in flight are
    not moved. The exit code is 1 if the queue has no dead-letter policy.
    """
    with call.open() as rsmq:
        ids = rsmq.sweep_dead_letters(queue, max_messages)
        has_policy = bool(ids) or rsmq.get_queue_attributes(queue).dead_letter_queue is not None
    call.out.result(ids, map(format_text, ids))
    if has_policy:
        return None
    call.out.note(
        f"{format_text(queue)}: no dead-letter policy, so nothing is moved. rsmq dead-letter sets "
        "one."
    )
    return Exit.NOT_ALL


@command(
    "redrive",
    "rsmq redrive orders-dead",
    "rsmq redrive orders-dead ID ID",
    "rsmq redrive orders-dead --to orders -n 100",
)
@argument("DEAD_LETTER_QUEUE", "queue")
@argument("[ID...]")
@call_options("redrive_messages")
def redrive(
    call: Call, queue: str, ids: tuple[str, ...], destination: str | None, max_messages: int | None
) -> Exit | None:
    """
    Send dead letters again, with new ids.

    The receive count of each starts at 0 again. It prints the old and the new id of each message.
    Without ids all that are visible are sent. The exit code is 1 if there are no messages, or if
    one of the ids is not in the queue.
    """
    if ids and max_messages is not None:
        raise click.UsageError("--number goes without ids.")
    wanted = list(dict.fromkeys(ids))
    with call.open() as rsmq:
        redriven = rsmq.redrive_messages(
            queue, destination, wanted if ids else None, max_messages=max_messages
        )
    sent_again = {old for old, _ in redriven}
    missing = [id for id in wanted if id not in sent_again]
    call.out.result(
        [{"id": old, "new_id": new} for old, new in redriven],
        [f"{format_text(old)}  {new}" for old, new in redriven],
    )
    code = call.note_missing(missing)
    if not wanted and not redriven:
        call.out.note("no message")
    return code if redriven else Exit.NOT_ALL
