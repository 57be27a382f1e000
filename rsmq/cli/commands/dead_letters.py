"""
The commands dead-letter, sweep, redrive and move.
"""

from __future__ import annotations

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command, complete_queues, ids_argument, queue_argument
from rsmq.cli.app.exit_codes import Exit
from rsmq.cli.app.output import shown
from rsmq.cli.commands.messages import of_ids


@command(
    "dead-letter",
    "rsmq dead-letter orders",
    "rsmq dead-letter orders orders-dead --max-receives 5",
    "rsmq dead-letter orders --remove",
)
@queue_argument()
@queue_argument("target", required=False, metavar="[DEAD_LETTER_QUEUE]")
@click.option(
    "--max-receives", type=int, metavar="N",
    help="How often a message may be received, 1 to 1,000,000; from 3 on is prudent.",
)  # fmt: skip
@click.option("--remove", is_flag=True, help="Remove the policy.")
@click.pass_obj
def dead_letter(
    call: Call, queue: str, target: str | None, max_receives: int | None, *, remove: bool
) -> None:
    """
    Show, set or remove a queue's dead-letter policy.

    A receive moves a message that was received so often to the DEAD_LETTER_QUEUE, which must exist,
    instead of delivering it.
    """
    if (target is None) is not (max_receives is None):
        raise click.UsageError("A policy is a DEAD_LETTER_QUEUE and --max-receives.")
    if remove and target is not None:
        raise click.UsageError("--remove stands alone.")
    with call.open() as rsmq:
        if remove or target is not None:
            known = rsmq.set_dead_letter_policy(queue, target, max_receives)
        else:
            known = rsmq.get_queue_attributes(queue)
    told = {"queue": queue, "dead_letter_queue": known.dead_letter_queue}
    if known.dead_letter_queue is None:
        line = f"{shown(queue)}: no dead-letter policy"
    else:
        line = f"{shown(queue)}: to {shown(known.dead_letter_queue)} after "
        line += f"{known.max_receives} receives"
    call.out.result({**told, "max_receives": known.max_receives}, line)


@command("sweep", "rsmq sweep orders")
@queue_argument()
@click.option(
    "--number", "-n", type=int, default=1000, show_default=True, metavar="N",
    help="How many at most, 1 to 10,000.",
)  # fmt: skip
@click.pass_obj
def sweep(call: Call, queue: str, number: int) -> None:
    """
    Move what was received too often.

    For queues whose consumers are programs that don't know dead-letter policies. Prints the ids of
    the messages that it moved; what somebody holds is left alone.
    """
    with call.open() as rsmq:
        ids = rsmq.sweep_dead_letters(queue, number)
    call.out.result(ids, map(shown, ids))


@command("redrive", "rsmq redrive orders-dead", "rsmq redrive orders-dead --to orders -n 100")
@queue_argument(metavar="DEAD_LETTER_QUEUE")
@click.option(
    "--to", "destination", metavar="QUEUE", shell_complete=complete_queues,
    help="Where they go; by default to the one queue whose policy names this one.",
)  # fmt: skip
@click.option("--number", "-n", type=int, metavar="N", help="How many at most; all by default.")
@click.pass_obj
def redrive(call: Call, queue: str, destination: str | None, number: int | None) -> Exit | None:
    """
    Send dead letters anew.

    Each gets a new id and no counters. Prints of each the old id and the new one. Exit code 1 if
    there was none.
    """
    with call.open() as rsmq:
        ids = rsmq.redrive_messages(queue, destination, max_messages=number)
    call.out.result(
        [{"id": old, "new_id": new} for old, new in ids],
        [f"{shown(old)}  {new}" for old, new in ids],
    )
    return None if ids else Exit.NOT_ALL


@command("move", "rsmq move orders ID ID --to invoices")
@queue_argument()
@ids_argument()
@click.option(
    "--to", "destination", required=True, metavar="QUEUE", shell_complete=complete_queues,
    help="Where they go.",
)  # fmt: skip
@click.pass_obj
def move(call: Call, queue: str, ids: tuple[str, ...], destination: str) -> Exit | None:
    """
    Move messages to another queue.

    With their ids and counters, whoever holds them. Exit code 1 if one of them is not in the queue.
    """
    with call.open() as rsmq:
        return of_ids(call, ids, "moved", lambda some: rsmq.move_messages(queue, destination, some))
