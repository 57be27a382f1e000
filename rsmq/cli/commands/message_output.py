"""
The output of messages: as bodies, as a table, or as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import options
from rsmq.cli.app.errors import Exit, Failed
from rsmq.cli.app.output import (
    format_message_body,
    format_table,
    format_text,
    format_time,
    shown_body,
    to_json_value,
    truncate,
)
from rsmq.errors.printable import format_count
from rsmq.model import Message, StoredMessage
from rsmq.vocabulary.stored import SHOWN_FACTS


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

    return options("""
        --raw  Write only the bodies, unchanged, with a line end after each body.
        --no-newline  Like --raw, without the line end after the last body.
        --null, -0, null  Like --raw, with a NUL byte after each body.
        """)(with_format)


def _body_format(*, raw: bool, no_newline: bool, null: bool) -> BodyFormat | None:
    if null and no_newline:
        raise click.UsageError("--null and --no-newline exclude each other.")
    if not (raw or null or no_newline):
        return None
    if click.get_current_context().ensure_object(Call).as_json:
        raise click.UsageError("--raw and --json exclude each other.")
    return BodyFormat(b"\0") if null else BodyFormat(b"\n", not no_newline)


def write_messages(
    call: Call,
    messages: Sequence[Message | StoredMessage],
    bodies: BodyFormat | None,
    *,
    has_queue_column: bool = False,
    width: int | None = None,
    holders: Mapping[str, str] | None = None,
) -> Exit | None:
    """
    Write messages.

    Args:
        bodies: the format, if only bodies are written; else None.
        has_queue_column: whether the table has a column with the name of the queue.
        width: the columns of the terminal; with None long bodies are not cut off.
        holders: the name of the worker that has a message in flight, by message id; None leaves
            this out.

    Returns:
        The exit code: None for 0; NOT_ALL if there are no messages.
    """
    if bodies is not None:
        for message in messages[:-1]:
            call.out.write(shown_body(message) + bodies.separator)
        for message in messages[-1:]:
            call.out.write(shown_body(message) + bodies.separator * bodies.ends_with_it)
    elif messages or call.as_json:
        values: list[Any] = list(messages)
        if holders is not None:
            values = [to_json_value(each) | {"held_by": holders.get(each.id)} for each in messages]
        call.out.result(
            values,
            format_messages(
                messages, has_queue_column=has_queue_column, width=width, holders=holders or {}
            ),
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
    holders: Mapping[str, str] | None = None,
) -> list[str]:
    """
    Return messages as the lines of a table.

    After a dead letter comes the reason why it is one, after a message that waits for a retry its
    last error, after one with a group its group, and after one in flight the worker that has it.
    """
    stored = bool(messages) and isinstance(messages[0], StoredMessage)
    names = ["queue"] * has_queue_column + ["id", "received", "sent"]
    names += ["state", "visible from"] * stored + ["body"]
    heading, *lines = format_table(names, [_row(each, has_queue_column) for each in messages])
    lines_with_reasons = [heading]
    for message, line in zip(messages, lines, strict=True):
        lines_with_reasons.append(truncate(line, width, keep=heading.rindex("BODY")))
        lines_with_reasons += _reason_lines(message)
        if isinstance(message, StoredMessage) and message.last_error is not None:
            lines_with_reasons.append(f"  {format_text(message.last_error)}")
        if isinstance(message, StoredMessage):
            lines_with_reasons += _fact_lines(message)
        if holders and message.id in holders:
            lines_with_reasons.append(f"  at worker {format_text(holders[message.id])}")
    return lines_with_reasons


def _row(message: Message | StoredMessage, has_queue_column: bool) -> list[Any]:  # noqa: FBT001 - a column
    row: list[Any] = [format_text(message.queue)] if has_queue_column else []
    row += [format_text(message.id), message.receive_count, format_time(message.sent_ms)]
    if isinstance(message, StoredMessage):
        due = None if message.state == "held_back" else message.visible_at_ms
        row += [message.state, format_time(due)]
    return [*row, format_message_body(message)]


def _reason_lines(message: Message | StoredMessage) -> list[str]:
    reason = message.reason if isinstance(message, StoredMessage) else None
    if reason is None:
        return []
    line = (
        f"  from {format_text(reason.queue)}, {format_time(reason.died_ms)}, worker "
        f"{format_text(reason.worker)}, received {reason.attempts}: {format_text(reason.text)}"
    )
    return [line, *([f"  {format_text(reason.exception)}"] if reason.exception else [])]


def _fact_lines(message: StoredMessage) -> Iterator[str]:
    values = {each.name: getattr(message, each.name) for each in SHOWN_FACTS}
    texts = {name: format_text(value) if isinstance(value, str) else value
             for name, value in values.items()}  # fmt: skip
    for each in SHOWN_FACTS:
        if each.line and values[each.name] is not None:
            yield f"  {each.line.format(**texts)}"


class PoppedWriter:
    """
    A writer of popped messages, batch by batch: as bodies, as a table, or as one JSON array.

    Attributes:
        number: the number of messages that were written.
    """

    def __init__(self, call: Call, bodies: BodyFormat | None, *, has_queue_column: bool) -> None:
        """
        Create a writer.

        Args:
            bodies: the format, if only bodies are written; else None.
            has_queue_column: whether the table has a column with the name of the queue.
        """
        self._call = call
        self._bodies = bodies
        self._has_queue_column = has_queue_column
        self.number = 0

    def write(self, messages: Sequence[Message]) -> None:
        """
        Write messages, each before the next one.

        Raises:
            Failed: a message can't be written. The error has the number of messages that are lost.
        """
        out, written = self._call.out, 0
        try:
            for data in self._encode(messages):
                out.write(data)
                out.flush()
                written += 1
        except (OSError, KeyboardInterrupt) as error:
            self.number += written
            is_interrupt = isinstance(error, KeyboardInterrupt)
            reason = "Interrupted" if is_interrupt else getattr(error, "strerror", None) or error
            lost = len(messages) - written
            raise Failed(
                f"{format_count(lost)} {'was' if lost == 1 else 'were'} deleted and not written",
                exit=Exit.INTERRUPTED if is_interrupt else Exit.NOT_ALL,
                code="notWritten",
                hint=f"{reason}. Written: {self.number:,}. With rsmq receive and rsmq delete no "
                "message is lost.",
            ) from None
        self.number += written

    def end(self) -> None:
        """End the JSON array."""
        if self._call.as_json:
            self._call.out.write(b"]\n" if self.number else b"[]\n")

    def _encode(self, messages: Sequence[Message]) -> Iterator[bytes]:
        """Yield the output of each message."""
        if self._bodies is not None:
            separator = self._bodies.separator
            for place, message in enumerate(messages, self.number):
                if self._bodies.ends_with_it:
                    yield shown_body(message) + separator
                else:
                    yield separator * (place > 0) + shown_body(message)
        elif self._call.as_json:
            for place, message in enumerate(messages, self.number):
                yield (b", " if place else b"[") + json.dumps(to_json_value(message)).encode()
        else:
            heading, *lines = format_messages(messages, has_queue_column=self._has_queue_column)
            for place, line in enumerate(lines, self.number):
                text = line if place else f"{heading}\n{line}"
                yield self._call.out.encode(text) + b"\n"
