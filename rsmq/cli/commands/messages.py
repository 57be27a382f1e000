"""
The commands delete, visibility, release, get and peek.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, get_args

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import SECONDS, command, ids_argument, queue_argument
from rsmq.cli.app.exit_codes import Exit
from rsmq.cli.app.output import shown
from rsmq.cli.commands.receive import ending_of_bodies, raw_options, tell_messages
from rsmq.model import State
from rsmq.wire.limits import MAX_BATCH


@command("delete", "rsmq delete orders ID", "rsmq rm orders ID ID --json")
@queue_argument()
@ids_argument()
@click.pass_obj
def delete(call: Call, queue: str, ids: tuple[str, ...]) -> Exit | None:
    """
    Delete messages.

    Whoever holds them. Exit code 1 if one of them is not in the queue.
    """
    with call.open() as rsmq:
        return of_ids(call, ids, "deleted", lambda some: rsmq.delete_messages(queue, some))


@command("visibility", "rsmq visibility orders ID --vt 600", "rsmq vs orders ID --vt 0")
@queue_argument()
@ids_argument()
@click.option(
    "--vt", type=SECONDS, required=True, metavar="SECONDS",
    help="To hide them from now on, 0 to 9,999,999.",
)  # fmt: skip
@click.pass_obj
def visibility(call: Call, queue: str, ids: tuple[str, ...], vt: float) -> Exit | None:
    """
    Hide messages for a time from now, or show them.

    Whoever holds them. Exit code 1 if one of them is not in the queue.
    """
    with call.open() as rsmq:
        return of_ids(
            call, ids, "changed", lambda some: rsmq.change_messages_visibility(queue, some, vt)
        )


@command("release", "rsmq release orders ID ID", "rsmq release orders --all")
@queue_argument()
@ids_argument(required=False)
@click.option("--all", "every", is_flag=True, help="All that are received and hidden.")
@click.pass_obj
def release(call: Call, queue: str, ids: tuple[str, ...], *, every: bool) -> Exit | None:
    """
    Give messages back: visible now, where they stood.

    Whoever holds them: who works on one will work on it while another does. By its ID also one that
    is delayed; with --all only what was received. Exit code 1 if an ID is not in the queue.
    """
    if every is bool(ids):
        raise click.UsageError("Give IDs or --all, one of them.")
    with call.open() as rsmq:
        if ids:
            return of_ids(call, ids, "released", lambda some: rsmq.release_messages(queue, some))
        number = rsmq.release_all_messages(queue)
    call.out.result({"queue": queue, "released": number}, f"{number:,} released")
    return None


def of_ids(
    call: Call, ids: Sequence[str], word: str, act: Callable[[Sequence[str]], list[str]]
) -> Exit | None:
    """Act on messages, a batch at a time, and tell of which it was done and of which not."""
    wanted = list(dict.fromkeys(ids))
    done: list[str] = []
    try:
        for at in range(0, len(wanted), MAX_BATCH):
            done += act(wanted[at : at + MAX_BATCH])
    finally:
        missing = [id for id in wanted if id not in set(done)]
        if done or call.as_json:
            call.out.result({word: done, "missing": missing}, done)
    for id in missing:
        call.out.note(f"{shown(id)}: not there")
    return Exit.NOT_ALL if missing else None


@command("get", "rsmq get orders ID", "rsmq get orders ID --raw > body")
@queue_argument()
@ids_argument()
@raw_options
@click.pass_obj
def get(call: Call, queue: str, ids: tuple[str, ...], *, raw: bool, null: bool) -> Exit | None:
    """
    Show messages by their ids.

    Nothing is changed. Exit code 1 if one of them is not in the queue.
    """
    end = ending_of_bodies(call, raw=raw, null=null)
    with call.open() as rsmq:
        found = {id: rsmq.get_message(queue, id) for id in ids}
    there = [message for message in found.values() if message is not None]
    if there or call.as_json:
        tell_messages(call, there, end)
    for id, message in found.items():
        if message is None:
            call.out.note(f"{shown(id)}: not there")
    return None if len(there) == len(found) else Exit.NOT_ALL


@command(
    "peek",
    "rsmq peek orders",
    "rsmq peek orders --start -10",
    "rsmq peek orders --state in_flight -n 100 --json",
)
@queue_argument()
@click.option(
    "--start", type=int, default=0, show_default=True, metavar="N",
    help="The place of the first, from 0; -1 is the last.",
)  # fmt: skip
@click.option(
    "--count", "--number", "-n", type=int, default=10, show_default=True, metavar="N",
    help="How many at most, 1 to 10,000.",
)  # fmt: skip
@click.option(
    "--state", type=click.Choice(get_args(State)), help="Only these, and places among them."
)
@raw_options
@click.pass_obj
def peek(
    call: Call, queue: str, start: int, count: int, state: Any, *, raw: bool, null: bool
) -> Exit | None:
    """
    Show messages by their places.

    Nothing is changed. They come in the order in which they become visible; under a dead letter
    stands why a worker gave it up. On a terminal long bodies are cut; rsmq get shows all. Exit code
    1 if there is none.
    """
    end = ending_of_bodies(call, raw=raw, null=null)
    with call.open() as rsmq:
        messages = rsmq.peek_messages(queue, start, count, state=state)
    return tell_messages(call, messages, end, width=call.out.width)
