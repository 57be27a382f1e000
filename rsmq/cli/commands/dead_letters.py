"""
The commands dead-letter, sweep, sweep-expired, sweep-groups, redrive and move.
"""

from __future__ import annotations

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import argument, command, options
from rsmq.cli.app.errors import Exit
from rsmq.cli.app.output import format_text
from rsmq.errors.printable import format_count


@command(
    "dead-letter QUEUE",
    "rsmq dead-letter orders",
    "rsmq dead-letter orders orders-dead --max-receives 5",
    "rsmq dead-letter orders --remove",
)
@argument("[DEAD_LETTER_QUEUE]", "target")
@options("""
    --max-receives N  How often a message may be received, 1 to 1,000,000; use 3 or more.
    --remove  Remove the policy.
    """)
def dead_letter(
    call: Call, queue: str, target: str | None, max_receives: int | None, *, remove: bool
) -> None:
    """
    Show, set or remove a queue's dead-letter policy.

    A message that was received --max-receives times is not delivered again: the next receive moves
    it to the DEAD_LETTER_QUEUE, which must exist.
    """
    if (target is None) is not (max_receives is None):
        raise click.UsageError("A policy is a DEAD_LETTER_QUEUE and --max-receives.")
    if remove and target is not None:
        raise click.UsageError("--remove goes without a queue and without --max-receives.")
    with call.open() as rsmq:
        if remove or target is not None:
            attributes = rsmq.set_dead_letter_policy(queue, target, max_receives)
        else:
            attributes = rsmq.get_queue_attributes(queue)
    fields = {"queue": queue, "dead_letter_queue": attributes.dead_letter_queue}
    if attributes.dead_letter_queue is None:
        line = f"{format_text(queue)}: no dead-letter policy"
    else:
        line = f"{format_text(queue)}: to {format_text(attributes.dead_letter_queue)} after "
        line += format_count(attributes.max_receives or 0, "receive")
    call.out.result({**fields, "max_receives": attributes.max_receives}, line)


@command("sweep QUEUE", "rsmq sweep orders")
@options("--number, -n N  The highest number of messages, 1 to 10,000.  [default: 1000]")
def sweep(call: Call, queue: str, number: int) -> Exit | None:
    """
    Move messages that were received too often.

    They are moved to the dead-letter queue. Use it for queues whose consumers do not apply
    dead-letter policies. It prints the ids of the moved messages. Messages that are in flight are
    not moved. The exit code is 1 if the queue has no dead-letter policy.
    """
    with call.open() as rsmq:
        ids = rsmq.sweep_dead_letters(queue, number)
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
@options("""
    --to, destination QUEUE  The target; by default the queue that each message came from, as its
        reason says, or the only queue whose policy names this dead-letter queue.
    --number, -n N  The highest number of messages; all by default.
    """)
def redrive(
    call: Call, queue: str, ids: tuple[str, ...], destination: str | None, number: int | None
) -> Exit | None:
    """
    Send dead letters again, with new ids.

    The receive count of each starts at 0 again. It prints the old and the new id of each message.
    Without ids all that are visible are sent. The exit code is 1 if there are no messages, or if
    one of the ids is not in the queue.
    """
    if ids and number is not None:
        raise click.UsageError("--number goes without ids.")
    wanted = list(dict.fromkeys(ids))
    with call.open() as rsmq:
        redriven = rsmq.redrive_messages(
            queue, destination, wanted if ids else None, max_messages=number
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
