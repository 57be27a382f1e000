"""
The commands receive, pop and recover.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import (
    DURATION,
    Decorator,
    command,
    queue_argument,
    queues_argument,
    vt_option,
)
from rsmq.cli.app.exit_codes import Exit
from rsmq.cli.app.output import format_body, format_table, format_text, format_time, truncate
from rsmq.cli.app.queue_names import expand_patterns
from rsmq.model import Message, StoredMessage
from rsmq.wire.limits import MAX_BATCH, check_whole_number

_FOREVER = "forever"


def number_option(default: int, help: str) -> Decorator:
    """Return an option for the highest number of messages."""
    return click.option(
        "--number", "-n", type=int, default=default, show_default=True, metavar="N", help=help
    )


@dataclass(frozen=True, slots=True)
class BodyFormat:
    """
    The format of an output of bodies only.

    Attributes:
        separator: the bytes after each body.
        ends_with_it: whether they also follow the last body.
    """

    separator: bytes
    ends_with_it: bool = True


def raw_options(function: Callable[..., Any]) -> Any:
    """
    Add the options ``--raw``, ``--no-newline`` and ``--null``, which write only bodies.

    The function gets their effect as ``bodies``: a BodyFormat, or None without these options.
    """

    @wraps(function)
    def with_format(*arguments: Any, raw: bool, no_newline: bool, null: bool, **others: Any) -> Any:
        bodies = _body_format(raw=raw, no_newline=no_newline, null=null)
        return function(*arguments, bodies=bodies, **others)

    for names, help in (
        (("--null", "-0", "null"), "Like --raw, with a NUL byte after each body."),
        (("--no-newline",), "Like --raw, without the line end after the last body."),
        (("--raw",), "Write only the bodies, unchanged, with a line end after each body."),
    ):
        with_format = click.option(*names, is_flag=True, help=help)(with_format)
    return with_format


def _body_format(*, raw: bool, no_newline: bool, null: bool) -> BodyFormat | None:
    if null and no_newline:
        raise click.UsageError("--null and --no-newline exclude each other.")
    if not (raw or null or no_newline):
        return None
    if click.get_current_context().ensure_object(Call).as_json:
        raise click.UsageError("--raw and --json exclude each other.")
    return BodyFormat(b"\0") if null else BodyFormat(b"\n", not no_newline)


def _parse_wait(text: str | float) -> float | None:
    return None if text == _FOREVER else DURATION.convert(text, None, None)


def _wait_option() -> Decorator:
    return click.option(
        "--wait", type=_parse_wait, default=0, metavar="DURATION",
        help=f"How long to wait for the first message, or {_FOREVER}.  [default: 0]",
    )  # fmt: skip


@command(
    "receive",
    "rsmq receive orders",
    "rsmq receive urgent orders -n 100 --wait 20 --json",
    "rsmq receive images --raw > image",
)
@queues_argument()
@number_option(1, "The highest number of messages, 1 to 10,000.")
@vt_option()
@_wait_option()
@raw_options
@click.pass_obj
def receive(
    call: Call, queues: tuple[str, ...], number: int, vt: float | None, wait: float | None,
    *, bodies: BodyFormat | None,
) -> Exit | None:  # fmt: skip
    """
    Receive messages and hide them from others.

    A message becomes visible again when its visibility timeout ends. rsmq delete deletes it before,
    and rsmq visibility extends the timeout. Of several queues the first has precedence. The exit
    code is 1 if no message is visible within --wait.
    """
    with call.open() as rsmq:
        queues = expand_patterns(rsmq, queues)
        messages = rsmq.receive_messages(queues, number, vt=vt, wait=wait)
    return write_messages(call, messages, bodies, has_queue_column=len(queues) > 1)


#: The number of messages that pop removes at a time: so many can be lost if a write fails.
_POP_BATCH = 10


@command("pop", "rsmq pop orders", "rsmq pop orders -n 100 --raw > lines")
@queues_argument()
@number_option(1, "The highest number of messages, 1 to 10,000.")
@_wait_option()
@raw_options
@click.pass_obj
def pop(
    call: Call,
    queues: tuple[str, ...],
    number: int,
    wait: float | None,
    *,
    bodies: BodyFormat | None,
) -> Exit | None:
    """
    Receive messages and delete them at once.

    Delivery is at most once: if the program can't write a popped message, the message is lost. So
    it pops ten messages at a time, and writes them before it pops the next. With rsmq receive no
    message is lost. Of several queues the first has precedence. The exit code is 1 if no message is
    visible within --wait, and if a message can't be written; the error has the number of these.
    """
    from rsmq.cli.commands.popped import PoppedWriter  # noqa: PLC0415 - imports this module

    check_whole_number("max_messages", number, 1, MAX_BATCH)
    with call.open() as rsmq:
        queues = expand_patterns(rsmq, queues)
        writer = PoppedWriter(call, bodies, has_queue_column=len(queues) > 1)
        while writer.number < number:
            size = min(number - writer.number, _POP_BATCH)
            messages = rsmq.pop_messages(queues, size, wait=0 if writer.number else wait)
            writer.write(messages)
            if len(messages) < size:
                break
    writer.end()
    if writer.number == 0:
        call.out.note("no message")
        return Exit.NOT_ALL
    return None


@command("recover", "rsmq recover orders --idle 3600")
@queue_argument()
@click.option(
    "--idle", type=DURATION, required=True, metavar="DURATION",
    help="Only messages that were last received so long ago, 0 to 9,999,999; 0 for all.",
)  # fmt: skip
@number_option(10, "The highest number of messages, 1 to 10,000.")
@vt_option()
@raw_options
@click.pass_obj
def recover(
    call: Call,
    queue: str,
    idle: float,
    number: int,
    vt: float | None,
    *,
    bodies: BodyFormat | None,
) -> Exit | None:
    """
    Receive abandoned messages again.

    These are messages in flight that were received at least --idle seconds ago. Their receive
    counts rise by one, so that the earlier consumers can no longer delete or extend them. The exit
    code is 1 if there are none.
    """
    with call.open() as rsmq:
        messages = rsmq.recover_messages(queue, number, idle=idle, vt=vt)
    return write_messages(call, messages, bodies)


def write_messages(
    call: Call,
    messages: Sequence[Message | StoredMessage],
    bodies: BodyFormat | None,
    *,
    has_queue_column: bool = False,
    width: int | None = None,
) -> Exit | None:
    """
    Write messages.

    Args:
        call: the call of the program.
        messages: the messages.
        bodies: the format, if only bodies are written; else None.
        has_queue_column: whether the table has a column with the name of the queue.
        width: the columns of the terminal; with None long bodies are not cut off.

    Returns:
        The exit code: None for 0; NOT_ALL if there are no messages.
    """
    if bodies is not None:
        for message in messages[:-1]:
            call.out.write(message.raw + bodies.separator)
        for message in messages[-1:]:
            call.out.write(message.raw + bodies.separator * bodies.ends_with_it)
    elif messages or call.as_json:
        call.out.result(
            list(messages),
            format_messages(messages, has_queue_column=has_queue_column, width=width),
        )
    if messages:
        return None
    call.out.note("no message")
    return Exit.NOT_ALL


def format_messages(
    messages: Sequence[Message | StoredMessage],
    *,
    has_queue_column: bool = False,
    width: int | None = None,
) -> list[str]:
    """Return messages as the lines of a table; after a dead letter, the reason why it is one."""
    stored = bool(messages) and isinstance(messages[0], StoredMessage)
    names = ["queue"] * has_queue_column + ["id", "received", "sent"]
    names += ["state", "visible from"] * stored + ["body"]
    heading, *lines = format_table(names, [_row(each, has_queue_column) for each in messages])
    lines_with_reasons = [heading]
    for message, line in zip(messages, lines, strict=True):
        lines_with_reasons.append(truncate(line, width, keep=heading.rindex("BODY")))
        lines_with_reasons += _reason_lines(message)
    return lines_with_reasons


def _row(message: Message | StoredMessage, has_queue_column: bool) -> list[Any]:  # noqa: FBT001 - a column
    row: list[Any] = [format_text(message.queue)] if has_queue_column else []
    row += [format_text(message.id), message.receive_count, format_time(message.sent_ms)]
    if isinstance(message, StoredMessage):
        row += [message.state, format_time(message.visible_at_ms)]
    return [*row, format_body(message.raw)]


def _reason_lines(message: Message | StoredMessage) -> list[str]:
    reason = message.reason if isinstance(message, StoredMessage) else None
    if reason is None:
        return []
    line = (
        f"  from {format_text(reason.queue)}, {format_time(reason.died_ms)}, worker "
        f"{format_text(reason.worker)}, received {reason.attempts}: {format_text(reason.text)}"
    )
    return [line, *([f"  {format_text(reason.exception)}"] if reason.exception else [])]
