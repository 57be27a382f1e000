"""
The commands receive, pop and recover.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import (
    SECONDS,
    Decorator,
    command,
    queue_argument,
    queues_argument,
    vt_option,
)
from rsmq.cli.app.exit_codes import Exit
from rsmq.cli.app.output import shortened, shown, shown_body, shown_time, table
from rsmq.model import Message, StoredMessage

_FOR_EVER = "forever"


def number_option(default: int, help: str) -> Decorator:
    """How many messages."""
    return click.option(
        "--number", "-n", type=int, default=default, show_default=True, metavar="N", help=help
    )


def raw_options(function: Any) -> Any:
    """Bodies alone, as bytes."""
    function = click.option(
        "--null", "-0", "null", is_flag=True, help="As --raw, with a NUL byte after each."
    )(function)
    return click.option(
        "--raw", is_flag=True, help="Write the bodies alone, as they are, and a line's end after "
        "each."
    )(function)  # fmt: skip


def _wait(text: str | float) -> float | None:
    return None if text == _FOR_EVER else SECONDS(text)


def _wait_option() -> Decorator:
    return click.option(
        "--wait", type=_wait, default=0, metavar="SECONDS",
        help=f"How long to wait for the first one, or {_FOR_EVER}.  [default: 0]",
    )  # fmt: skip


@command(
    "receive",
    "rsmq receive orders",
    "rsmq receive urgent orders -n 100 --wait 20 --json",
    "rsmq receive images --raw > image",
)
@queues_argument()
@number_option(1, "How many at most, 1 to 10,000.")
@vt_option()
@_wait_option()
@raw_options
@click.pass_obj
def receive(
    call: Call, queues: tuple[str, ...], number: int, vt: float | None, wait: float | None,
    *, raw: bool, null: bool,
) -> Exit | None:  # fmt: skip
    """
    Receive messages and hide them from others.

    They come back when the visibility timeout has passed: rsmq delete ends that, rsmq visibility
    prolongs it. Earlier queues go first. Exit code 1 if none is due in time.
    """
    end = ending_of_bodies(call, raw=raw, null=null)
    with call.open() as rsmq:
        messages = rsmq.receive_messages(queues, number, vt=vt, wait=wait)
    return tell_messages(call, messages, end, several=len(queues) > 1)


@command("pop", "rsmq pop orders", "rsmq pop orders -n 100 --raw > lines")
@queues_argument()
@number_option(1, "How many at most, 1 to 10,000.")
@_wait_option()
@raw_options
@click.pass_obj
def pop(
    call: Call, queues: tuple[str, ...], number: int, wait: float | None, *, raw: bool, null: bool
) -> Exit | None:
    """
    Receive messages and delete them at once.

    At most once: what was popped and could not be written is lost. rsmq receive loses nothing.
    Earlier queues go first. Exit code 1 if none is due in time.
    """
    end = ending_of_bodies(call, raw=raw, null=null)
    with call.open() as rsmq:
        messages = rsmq.pop_messages(queues, number, wait=wait)
    return tell_messages(call, messages, end, several=len(queues) > 1)


@command("recover", "rsmq recover orders --idle 3600")
@queue_argument()
@click.option(
    "--idle", type=SECONDS, required=True, metavar="SECONDS",
    help="Since they were received last, 0 to 9,999,999; 0 takes all.",
)  # fmt: skip
@number_option(10, "How many at most, 1 to 10,000.")
@vt_option()
@raw_options
@click.pass_obj
def recover(
    call: Call, queue: str, idle: float, number: int, vt: float | None, *, raw: bool, null: bool
) -> Exit | None:
    """
    Take over messages that were received long ago.

    They are received anew, so that their former holder can't delete or extend them any more. Exit
    code 1 if there is none.
    """
    end = ending_of_bodies(call, raw=raw, null=null)
    with call.open() as rsmq:
        messages = rsmq.recover_messages(queue, number, idle=idle, vt=vt)
    return tell_messages(call, messages, end)


def ending_of_bodies(call: Call, *, raw: bool, null: bool) -> bytes | None:
    """What stands after each body that is written alone; None if they are not."""
    if (raw or null) and call.as_json:
        raise click.UsageError("--raw and --json exclude each other.")
    return b"\0" if null else b"\n" if raw else None


def tell_messages(
    call: Call,
    messages: Sequence[Message | StoredMessage],
    end: bytes | None,
    *,
    several: bool = False,
    width: int | None = None,
) -> Exit | None:
    """Write messages, on lines of so many columns; that there is none is an exit code."""
    if end is not None:
        for message in messages:
            call.out.write(message.raw + end)
    elif messages or call.as_json:
        call.out.result(list(messages), lines_of(messages, several=several, width=width))
    if messages:
        return None
    call.out.note("no message")
    return Exit.NOT_ALL


def lines_of(
    messages: Sequence[Message | StoredMessage], *, several: bool = False, width: int | None = None
) -> list[str]:
    """Messages as a table of so many columns; under a dead letter why it died."""
    stored = bool(messages) and isinstance(messages[0], StoredMessage)
    names = ["queue"] * several + ["id", "received", "sent"]
    names += ["state", "visible from"] * stored + ["body"]
    heading, *lines = table(names, [_row(each, several) for each in messages])
    told = [heading]
    for message, line in zip(messages, lines, strict=True):
        told.append(shortened(line, width, behind=heading.rindex("BODY")))
        told += _reason(message)
    return told


def _row(message: Message | StoredMessage, several: bool) -> list[Any]:  # noqa: FBT001 - a column
    row: list[Any] = [shown(message.queue)] if several else []
    row += [shown(message.id), message.receive_count, shown_time(message.sent_ms)]
    if isinstance(message, StoredMessage):
        row += [message.state, shown_time(message.visible_at_ms)]
    return [*row, shown_body(message.raw)]


def _reason(message: Message | StoredMessage) -> list[str]:
    reason = message.reason if isinstance(message, StoredMessage) else None
    if reason is None:
        return []
    line = (
        f"  from {shown(reason.queue)}, {shown_time(reason.died_ms)}, worker "
        f"{shown(reason.worker)}, received {reason.attempts}: {shown(reason.text)}"
    )
    return [line, *([f"  {shown(reason.exception)}"] if reason.exception else [])]
