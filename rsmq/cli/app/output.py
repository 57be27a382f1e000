"""
Output: lines for people, and with ``--json`` documents for programs.

Bodies are bytes. For a person a body is one line that can't be mistaken: as it is if it is UTF-8,
printable and not empty, has no space at its ends and does not begin like the other two forms; else
as a JSON string if it is UTF-8; else as bytes of Python, b"...". In JSON it is ``body`` if it is
UTF-8, else ``body_base64``.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import shutil
import sys
import unicodedata
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from rsmq.model import Message, StoredMessage

#: Milliseconds from which on digits tell nobody anything.
_ABSURD = 10**18

#: Columns that a body has in any case.
_LEAST = 20


class Output:
    """
    The standard output of a call.

    Attributes:
        as_json: whether it is for a program.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    @property
    def width(self) -> int | None:
        """Columns of the terminal; None where a program reads, which gets all."""
        if self.as_json or not sys.stdout.isatty():
            return None
        return shutil.get_terminal_size().columns

    def result(self, value: Any, lines: str | Iterable[str]) -> None:
        """
        Write what came out: one JSON document, or lines.

        Args:
            value: what JSON has of it; messages and attributes of the library are allowed in it.
            lines: the same for a person, without line ends.
        """
        if self.as_json:
            self.write(json.dumps(plain(value)).encode() + b"\n")
        else:
            for line in [lines] if isinstance(lines, str) else lines:
                self.write(_encoded(line) + b"\n")

    @contextmanager
    def listed(self) -> Iterator[Callable[[Iterable[str]], None]]:
        """
        Write texts as they come: with ``--json`` one array, whole also if an error ends it.

        Yields:
            A function that takes some of them, and lets them go out.
        """
        separator = b"["

        def tell(texts: Iterable[str]) -> None:
            nonlocal separator
            for text in texts:
                if self.as_json:
                    self.write(separator + json.dumps(text).encode())
                    separator = b", "
                else:
                    self.write(_encoded(text) + b"\n")
            self.flush()

        try:
            yield tell
        finally:
            if self.as_json:
                self.write(b"[]\n" if separator == b"[" else b"]\n")

    def note(self, text: str) -> None:
        """Tell a person something beside the result, on the standard error."""
        if not self.as_json:
            sys.stdout.flush()
            print(text, file=sys.stderr, flush=True)

    def write(self, data: bytes) -> None:
        """Write bytes as they are."""
        sys.stdout.buffer.write(data)

    def flush(self) -> None:
        """Let all that was written go out."""
        sys.stdout.flush()

    @contextmanager
    def progress(
        self, what: str, total: float | None = None, *, unit: str = "messages"
    ) -> Iterator[Callable[[float], None]]:
        """
        A bar on the standard error, with rate and time left; nothing where that is not a terminal.

        Args:
            what: what goes on, in a word or two.
            total: when it is done, in units; None if unknown.
            unit: what is counted.

        Yields:
            A function that is told how many more are done.
        """
        if self.as_json or not sys.stderr.isatty():
            yield lambda _: None
            return
        from rsmq.cli.app.progress_bar import bar  # noqa: PLC0415 - rich takes time to import

        with bar(what, total, unit) as advance:
            yield advance


def _encoded(line: str) -> bytes:
    return line.encode(sys.stdout.encoding or "utf-8", "backslashreplace")


def shown(text: str) -> str:
    """A name or a text as one line that can't be mistaken."""
    return text if _is_plain(text) else _quoted(text)


def shown_body(raw: bytes) -> str:
    """A body as one line that can't be mistaken; see the module."""
    try:
        return shown(raw.decode())
    except UnicodeDecodeError:
        text = repr(raw)[2:-1]
        if repr(raw)[1] == "'":
            text = text.replace("\\'", "'").replace('"', '\\"')
        return f'b"{text}"'


def shortened(line: str, width: int | None, *, behind: int) -> str:
    """
    A line that fits into a row of a terminal, or in few rows of a narrow one.

    Args:
        line: the line.
        width: columns of the terminal; None leaves the line as it is.
        behind: how many characters stay in any case, and some of what follows them.
    """
    if width is None or width < 1:
        return line
    head = sum(map(_columns, line[:behind]))
    room = math.ceil((head + _LEAST) / width) * width - head
    if sum(map(_columns, line[behind:])) <= room:
        return line
    room -= 1  # for the ellipsis
    end = behind
    while end < len(line) and (room := room - _columns(line[end])) >= 0:
        end += 1
    return f"{line[:end]}…" if end < len(line) else line


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _is_plain(text: str) -> bool:
    return (
        text != "" and text.isprintable() and text == text.strip()
        and not text.startswith(('"', 'b"'))
    )  # fmt: skip


def _quoted(text: str) -> str:
    told = json.dumps(text, ensure_ascii=False)
    return told if told.isprintable() else json.dumps(text)


def counted(number: int, what: str = "message") -> str:
    """So many of something, as "1 message" or "1,000 messages"."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def shown_time(ms: float | None) -> str:
    """Unix ms as a time in UTC, to the second; a dash for None."""
    if ms is None:
        return "-"
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return f"{ms:.0f} ms" if abs(ms) < _ABSURD else f"{ms:.3g} ms"


def table(
    names: Sequence[str], rows: Iterable[Sequence[Any]], *, numbers: Container[int] = ()
) -> list[str]:
    """
    Lines with a heading: numbers stand at the right of their column, None is a dash.

    Args:
        names: of the columns; the last one is not padded, so that bodies go there.
        rows: of each a value for each column.
        numbers: columns of texts that stand at the right too.
    """
    values = list(rows)
    cells = [[name.upper() for name in names], *([cell(value) for value in row] for row in values)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(names))]
    right = [
        at in numbers
        or (bool(values) and all(isinstance(row[at], int | float | None) for row in values))
        for at in range(len(names))
    ]
    return ["  ".join(map(_padded, row, widths, right)).rstrip() for row in cells]


def _padded(cell: str, width: int, right: bool) -> str:  # noqa: FBT001 - mapped
    return cell.rjust(width) if right else cell.ljust(width)


def cell(value: Any) -> str:
    """A value in a table."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def plain(value: Any) -> Any:
    """
    A value as JSON can hold it.

    Fields have the names of the Python attributes; times are ISO 8601, bodies as the module says.
    """
    if isinstance(value, Message | StoredMessage):
        return _message(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if not field.name.startswith("_")
        }
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return value


def _message(message: Message | StoredMessage) -> dict[str, Any]:
    known: dict[str, Any] = {"queue": message.queue, "id": message.id, **body_of(message.raw)}
    known |= {
        "receive_count": message.receive_count,
        "first_received_ms": message.first_received_ms,
        "sent_ms": message.sent_ms,
    }
    if isinstance(message, StoredMessage):
        for name in ("state", "visible_at_ms", "last_received_ms", "reason"):
            known[name] = plain(getattr(message, name))
    return known


def body_of(raw: bytes) -> dict[str, str]:
    """A body for JSON."""
    try:
        return {"body": raw.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(raw).decode()}
