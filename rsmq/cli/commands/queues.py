"""
The commands create, list, attributes, stats, pause, resume, purge and delete-queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from redis.exceptions import RedisError

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import SECONDS, command, queue_argument, queues_argument, yes_option
from rsmq.cli.app.errors import why_odd
from rsmq.cli.app.exit_codes import Exit
from rsmq.cli.app.output import cell, counted, plain, shown, shown_time, table
from rsmq.client import RSMQ
from rsmq.errors import RSMQError
from rsmq.wire.limits import DEFAULT_DELAY, DEFAULT_MAXSIZE, DEFAULT_VT


@command("create", "rsmq create orders --vt 60", "rsmq create orders --exist-ok")
@queue_argument()
@click.option(
    "--vt", type=SECONDS, default=DEFAULT_VT, show_default=True, metavar="SECONDS",
    help="How long a received message is hidden, 0 to 9,999,999.",
)  # fmt: skip
@click.option(
    "--delay", type=SECONDS, default=DEFAULT_DELAY, show_default=True, metavar="SECONDS",
    help="How long a new message is hidden, 0 to 9,999,999.",
)  # fmt: skip
@click.option(
    "--maxsize", type=int, default=DEFAULT_MAXSIZE, show_default=True, metavar="N",
    help="The largest body, 1024 to 65,536 UTF-16 code units of text (bytes of other bodies), or "
    "-1 for unlimited.",
)  # fmt: skip
@click.option("--exist-ok", is_flag=True, help="Be content with a queue that exists.")
@click.pass_obj
def create(
    call: Call, queue: str, vt: float, delay: float, maxsize: int, *, exist_ok: bool
) -> None:
    """
    Create a queue.

    QUEUE is 1 to 160 characters of A-Z a-z 0-9 _ -.
    """
    with call.open() as rsmq:
        created = rsmq.create_queue(queue, vt=vt, delay=delay, maxsize=maxsize, exist_ok=exist_ok)
    call.out.result(
        {"queue": queue, "created": created},
        f"{shown(queue)}: {'created' if created else 'exists'}",
    )


@command("list", "rsmq ls", "rsmq list --json")
@click.pass_obj
def list_(call: Call) -> None:
    """
    List the queues.

    A name a line. Some clients make queues without listing them: those are missing here, and work
    all the same.
    """
    with call.open() as rsmq:
        names = rsmq.list_queues()
    call.out.result(names, map(shown, names))


@command("attributes", "rsmq attributes orders", "rsmq attributes orders --vt 120")
@queue_argument()
@click.option(
    "--vt", type=SECONDS, metavar="SECONDS",
    help="How long a received message is hidden, 0 to 9,999,999.",
)  # fmt: skip
@click.option(
    "--delay", type=SECONDS, metavar="SECONDS",
    help="How long a new message is hidden, 0 to 9,999,999.",
)  # fmt: skip
@click.option("--maxsize", type=int, metavar="N", help="The largest body, 1024 to 65,536, or -1.")
@click.pass_obj
def attributes(
    call: Call, queue: str, vt: float | None, delay: float | None, maxsize: int | None
) -> None:
    """
    Show the attributes of a queue, or set them.

    With one of the three options it sets, then shows. Messages that are hidden already stay so as
    they are.
    """
    with call.open() as rsmq:
        if (vt, delay, maxsize) == (None, None, None):
            known = rsmq.get_queue_attributes(queue)
        else:
            known = rsmq.set_queue_attributes(queue, vt=vt, delay=delay, maxsize=maxsize)
    told = {"queue": queue, **plain(known)}
    call.out.result(told, pairs(told))


def pairs(told: dict[str, Any]) -> list[str]:
    """Names and values, a line each."""
    texts = {
        name.removesuffix("_ms"): shown_time(value) if name.endswith("_ms") else cell(value)
        for name, value in told.items()
    }
    width = max(map(len, texts))
    return [f"{name:{width}}  {text}" for name, text in texts.items()]


@command("stats", "rsmq stats", "rsmq stats orders orders-dead --json")
@queues_argument(required=False)
@click.pass_obj
def stats(call: Call, queues: tuple[str, ...]) -> Exit | None:
    """
    Count the messages of queues by state.

    Without a QUEUE those of all queues that are listed. It walks through each queue in steps of a
    thousand messages, which takes a while where there are millions; rsmq attributes does not. Ends
    with 1 where a listed queue can't be read.
    """
    told: list[dict[str, Any]] = []
    odd: dict[str, str] = {}
    with call.open() as rsmq:
        for queue in queues or rsmq.list_queues():
            try:
                known, counts = rsmq.get_queue_attributes(queue), rsmq.count_messages(queue)
            except (RSMQError, RedisError) as error:
                why = why_odd(error)
                if queues or why is None:
                    raise
                odd[queue] = why
            else:
                told.append({"queue": queue, **plain(counts), **plain(known)})
    call.out.result(told, table(_STATS, [_stats_row(each) for each in told]))
    return tell_odd(call, odd)


def tell_odd(call: Call, odd: Mapping[str, str]) -> Exit | None:
    """Name the queues that can't be read, each with the reason."""
    for queue, why in odd.items():
        call.out.note(f"{shown(queue)}: left out. {why}.")
    return Exit.NOT_ALL if odd else None


_STATS = ("queue", "visible", "in flight", "delayed", "sent", "received", "oldest sent")


def _stats_row(told: dict[str, Any]) -> tuple[Any, ...]:
    counts = (told[name] for name in ("visible", "in_flight", "delayed"))
    totals = (told[name] for name in ("total_sent", "total_received"))
    return (shown(told["queue"]), *counts, *totals, shown_time(told["oldest_sent_ms"]))


@command("pause", "rsmq pause orders")
@queues_argument()
@click.pass_obj
def pause(call: Call, queues: tuple[str, ...]) -> None:
    """
    Let workers leave queues alone.

    They finish what they have begun. Sending goes on, and so do other consumers than workers.
    """
    from rsmq.cli.commands.worker_control import pause_queues  # noqa: PLC0415 - takes time

    pause_queues(call, queues)


@command("resume", "rsmq resume orders")
@queues_argument()
@click.pass_obj
def resume(call: Call, queues: tuple[str, ...]) -> None:
    """Let workers go on with queues."""
    from rsmq.cli.commands.worker_control import resume_queues  # noqa: PLC0415 - takes time

    resume_queues(call, queues)


@command("purge", "rsmq purge orders", "rsmq purge orders --yes")
@queues_argument()
@yes_option()
@click.pass_obj
def purge(call: Call, queues: tuple[str, ...], *, yes: bool) -> None:
    """
    Remove all messages of queues.

    Received ones too. The queues, their attributes and their totals stay.
    """
    with call.open() as rsmq:
        call.confirm(f"Remove {_contents(rsmq, queues)}?", yes=yes)

        def act(queue: str) -> tuple[dict[str, Any], str]:
            number = rsmq.purge_queue(queue)
            return {"removed": number}, f"{number:,} removed"

        call.for_each(queues, act)


@command("delete-queue", "rsmq delete-queue orders", "rsmq delete-queue old older --yes")
@queues_argument()
@yes_option()
@click.pass_obj
def delete_queue(call: Call, queues: tuple[str, ...], *, yes: bool) -> None:
    """
    Delete queues with all their messages.

    Received ones too. It asks before, once for all of them.
    """
    with call.open() as rsmq:
        call.confirm(f"Delete {_contents(rsmq, queues)}, and the queues?", yes=yes)

        def act(queue: str) -> tuple[dict[str, Any], str]:
            rsmq.delete_queue(queue)
            return {"deleted": True}, "deleted"

        call.for_each(queues, act)


def _contents(rsmq: RSMQ, queues: tuple[str, ...]) -> str:
    """What would be lost; all of the queues are there, or it raises."""
    return ", ".join(
        f"{counted(rsmq.get_queue_attributes(queue).messages)} of {shown(queue)}"
        for queue in queues
    )
