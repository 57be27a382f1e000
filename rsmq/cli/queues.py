"""
The commands for queues: create, list, attributes, stats, pause, resume, purge, delete-queue.
"""

from __future__ import annotations

import click

from rsmq.cli.call import Call
from rsmq.cli.command import (
    SECONDS,
    command,
    queue_argument,
)
from rsmq.cli.output import shown
from rsmq.protocol import DEFAULT_DELAY, DEFAULT_MAXSIZE, DEFAULT_VT


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
