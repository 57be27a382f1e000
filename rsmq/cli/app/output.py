"""
Output: lines for people, and with ``--json`` documents for programs.

Bodies are bytes. For people, a body is one line, and different bodies have different lines. The
line is the first of these forms that applies:

- the text itself, if the body is UTF-8, printable and not empty, has no space at its ends, and
  does not begin with ``"`` or ``b"``;
- a JSON string, if the body is UTF-8;
- a bytes literal of Python, b"...".

In JSON, a body is the field ``body`` if it is UTF-8, else ``body_base64``.
"""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
import sys
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import Enum
from functools import partial
from importlib.util import find_spec
from typing import Any

from rsmq.codecs.body_fields import body_fields
from rsmq.codecs.readable import summarize
from rsmq.errors import BodyNotDecodable, BodyUnavailable
from rsmq.model import Message, StoredMessage
from rsmq.vocabulary.stored import SHOWN_FACTS
from rsmq.wire.body_format import is_formatted

#: A number of ms that is not a date has all its digits up to here, and three digits beyond.
_MAX_EXACT_MS = 10**18

#: A body gets at least so many columns of the terminal, even if the line needs a second row.
_MIN_BODY_COLUMNS = 20


class Output:
    """
    The standard output of a call.

    Attributes:
        as_json: whether the output is JSON, for a program.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    @property
    def width(self) -> int | None:
        """The columns of the terminal; None if the output is JSON or not a terminal."""
        if self.as_json or not sys.stdout.isatty():
            return None
        return shutil.get_terminal_size().columns

    def result(self, value: Any, lines: str | Iterable[str]) -> None:
        """
        Write a result: one JSON document, or lines.

        Args:
            value: the result for JSON. It may contain messages and dataclasses of the library.
            lines: the result for people; lines without line ends.
        """
        if self.as_json:
            self.write(json.dumps(to_json_value(value)).encode() + b"\n")
        else:
            for line in [lines] if isinstance(lines, str) else lines:
                self.write(self.encode(line) + b"\n")

    def table(
        self,
        items: Sequence[Any],
        columns: Mapping[str, str | Callable[[Any], Any]],
        *,
        show: Callable[[Any], Any] | None = None,
        keep: int | None = None,
    ) -> None:
        """
        Write items: an array, or the lines of a table.

        Args:
            columns: as for ``format_items``.
            show: returns an item for JSON; by default its public fields.
            keep: the characters at the start of a line that are never cut off; None cuts nothing.
        """
        lines = () if self.as_json else format_items(items, columns)
        if keep is not None:
            lines = [truncate(each, self.width, keep=keep) for each in lines]
        self.result([show(each) for each in items] if show and self.as_json else items, lines)

    @contextmanager
    def list_writer(self) -> Iterator[Callable[[Iterable[str]], None]]:
        """
        Write texts one after the other: as lines, or with ``--json`` as one array.

        The array is closed even if an error ends the block.

        Yields:
            A function that writes texts and flushes the output.
        """
        separator = b"["

        def write_texts(texts: Iterable[str]) -> None:
            nonlocal separator
            for text in texts:
                if self.as_json:
                    self.write(separator + json.dumps(text).encode())
                    separator = b", "
                else:
                    self.write(self.encode(text) + b"\n")
            self.flush()

        try:
            yield write_texts
        finally:
            if self.as_json:
                self.write(b"[]\n" if separator == b"[" else b"]\n")

    def note(self, text: str) -> None:
        """Write a line for people on the standard error. With ``--json`` nothing is written."""
        if not self.as_json:
            sys.stdout.flush()
            print(text, file=sys.stderr, flush=True)

    @staticmethod
    def encode(line: str) -> bytes:
        """Return a text for people in the encoding of the standard output."""
        return line.encode(sys.stdout.encoding or "utf-8", "backslashreplace")

    def write(self, data: bytes) -> None:
        """Write bytes unchanged."""
        sys.stdout.buffer.write(data)

    def flush(self) -> None:
        """Flush the standard output."""
        sys.stdout.flush()

    @contextmanager
    def progress(
        self, label: str, total: float | None = None, *, unit: str = "messages"
    ) -> Iterator[Callable[[float], None]]:
        """
        Show a progress bar on the standard error, with the rate and the remaining time.

        Nothing is shown with ``--json``, if the standard error is not a terminal, or without rich.

        Args:
            label: the name of the work, in a word or two.
            total: the amount of work, in units; None if unknown.

        Yields:
            A function that adds a number of units that are done.
        """
        if self.as_json or not sys.stderr.isatty() or find_spec("rich") is None:
            yield lambda _: None
            return
        from rsmq.cli.app.progress_bar import show_bar  # noqa: PLC0415 - rich takes time to import

        with show_bar(label, total, unit) as advance:
            yield advance


def format_text(text: str) -> str:
    """Return a name or another text as one unambiguous line; see the module."""
    return text if _is_unambiguous(text) else _quote(text)


def format_body(raw: bytes) -> str:
    """Return a body as one unambiguous line; see the module."""
    try:
        return format_text(raw.decode())
    except UnicodeDecodeError:
        text = repr(raw)[2:-1]
        if repr(raw)[1] == "'":
            text = text.replace("\\'", "'").replace('"', '\\"')
        return f'b"{text}"'


def shown_body(message: Message | StoredMessage) -> bytes:
    """Return a body as the codec of the program decodes it, or as it is stored if it can't."""
    try:
        body: bytes = message.body
    except (BodyNotDecodable, BodyUnavailable):
        return message.raw
    return body


def format_message_body(message: Message | StoredMessage) -> str:
    """Return a body as one line; of one that was not decoded what was done with it."""
    body = shown_body(message)
    return f"({summarize(body)})" if is_formatted(body) else format_body(body)


def truncate(line: str, width: int | None, *, keep: int) -> str:
    """
    Return a line, truncated so that it fits into the rows of a terminal.

    The line may fill as many rows as its kept part and 20 further columns need; on a wide terminal
    this is one row. An ellipsis replaces the text that is cut off.

    Args:
        width: the columns of the terminal; with None the line is not truncated.
        keep: the number of characters at its start that are never cut off.
    """
    if width is None or width < 1:
        return line
    kept_columns = sum(map(_character_columns, line[:keep]))
    free_columns = math.ceil((kept_columns + _MIN_BODY_COLUMNS) / width) * width - kept_columns
    if sum(map(_character_columns, line[keep:])) <= free_columns:
        return line
    free_columns -= 1  # for the ellipsis
    stop = keep
    while stop < len(line) and (free_columns := free_columns - _character_columns(line[stop])) >= 0:
        stop += 1
    return f"{line[:stop]}…" if stop < len(line) else line


def _character_columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _is_unambiguous(text: str) -> bool:
    return (
        text != "" and text.isprintable() and text == text.strip()
        and not text.startswith(('"', 'b"'))
    )  # fmt: skip


def _quote(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if quoted.isprintable() else json.dumps(text)


def format_time(time: float | datetime | None) -> str:
    """
    Return a time, or a Unix time in ms, as a time in UTC, to the second; a dash for None.

    A time outside the years 1 to 9999 is returned as the number, with the unit ms.
    """
    if time is None:
        return "-"
    ms = time.timestamp() * 1000 if isinstance(time, datetime) else time
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return f"{ms:.0f} ms" if abs(ms) < _MAX_EXACT_MS else f"{ms:.3g} ms"


def format_age(seconds: float | None) -> str:
    """Return an age in its two largest units."""
    if seconds is None:
        return "-"
    whole_seconds = int(seconds)
    for unit, smaller, size, smaller_size in (("d", "h", 86_400, 3600), ("h", "m", 3600, 60)):
        if whole_seconds >= size:
            return f"{whole_seconds // size}{unit} {whole_seconds % size // smaller_size}{smaller}"
    return (
        f"{whole_seconds // 60}m {whole_seconds % 60}s"
        if whole_seconds >= 60  # noqa: PLR2004 - a minute
        else f"{whole_seconds}s"
    )


def format_items(
    items: Iterable[Any], columns: Mapping[str, str | Callable[[Any], Any]]
) -> list[str]:
    """
    Return the lines of a table of items.

    Args:
        columns: by its heading, the name of an attribute, or a function of an item. Texts are
            quoted if they need it, and attributes whose names end in ``_ms`` are times.
    """
    readers = [
        each if callable(each) else partial(_format_attribute, each) for each in columns.values()
    ]
    rows = [[read(item) for read in readers] for item in items]
    return format_table(list(columns), rows)


def _format_attribute(name: str, item: Any) -> Any:
    value = getattr(item, name)
    if value is None:
        return None
    if name.endswith("_ms") or isinstance(value, datetime):
        return format_time(value)
    return format_text(value) if type(value) is str else value


def format_table(
    names: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    number_columns: Container[int] = (),
    width: int | None = None,
    show: Callable[[Any], str] | None = None,
) -> list[str]:
    """
    Return the lines of a table, with a heading.

    Columns that contain only numbers are aligned to the right; None is a dash.

    Args:
        names: the names of the columns. Trailing spaces are removed, so bodies belong in the last.
        rows: the values of each row, one for each column.
        number_columns: the indexes of columns whose texts are also aligned to the right.
        width: the columns of the terminal: the last columns are left out if they do not fit.
        show: returns a value as text; None is ``format_cell``.
    """
    row_values = list(rows)
    cells = [
        [name.upper() for name in names],
        *(list(map(show or format_cell, row)) for row in row_values),
    ]
    widths = [max(len(row[column]) for row in cells) for column in range(len(names))]
    align_right = [
        column in number_columns
        or (
            bool(row_values)
            and all(isinstance(row[column], int | float | None) for row in row_values)
        )
        for column in range(len(names))
    ]
    while width is not None and sum(widths) + 2 * len(widths) - 2 > width and len(widths) > 1:
        widths.pop()
    # Without the values beyond the last width.
    return ["  ".join(map(_pad, row, widths, align_right)).rstrip() for row in cells]


def _pad(cell: str, width: int, align_right: bool) -> str:  # noqa: FBT001 - mapped
    return cell.rjust(width) if align_right else cell.ljust(width)


def format_facts(facts: Mapping[str, Any]) -> list[str]:
    """Return facts of one thing as lines, each after its name; those that are None are left out."""
    return [f"{name:<9} {value}" for name, value in facts.items() if value is not None]


def format_cell(value: Any) -> str:
    """Return a value as the text of a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def to_json_value(value: Any) -> Any:
    """
    Convert a value for JSON.

    A dataclass becomes an object whose keys are the names of its public fields. A datetime becomes
    a text in UTC as ``format_time`` writes it. For the bodies of messages see the module.
    """
    if isinstance(value, Message | StoredMessage):
        return _message_fields(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: to_json_value(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if not field.name.startswith("_")
        }
    if isinstance(value, dict):
        return {key: to_json_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(each) for each in value]
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value.value if isinstance(value, Enum) else value


def _message_fields(message: Message | StoredMessage) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "queue": message.queue,
        "id": message.id,
        **body_fields(shown_body(message)),
    }
    fields |= {
        "receive_count": message.receive_count,
        "first_received_ms": message.first_received_ms,
        "sent_ms": message.sent_ms,
    }
    if isinstance(message, StoredMessage):
        names = ["state", "visible_at_ms", "last_received_ms", "reason", "last_error"]
        for name in (*names, *(each.name for each in SHOWN_FACTS)):
            fields[name] = to_json_value(getattr(message, name))
    return fields
