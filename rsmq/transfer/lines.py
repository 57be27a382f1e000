"""
The format of an export: lines of JSON, written and read.

compat/EXPORT.md has the format with all its fields.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

from rsmq.errors import InvalidExport, show

#: What the first line says of the format; a reader refuses another number.
FORMAT = 1

#: The types of lines.
HEADER, QUEUE, MESSAGE, END = "export", "queue", "message", "end"

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_encode_ascii = json.JSONEncoder(separators=(",", ":")).encode


def encoded(record: dict[str, Any]) -> bytes:
    """A record as a line."""
    try:
        return _encode(record).encode() + b"\n"
    except UnicodeEncodeError:  # a name that is not UTF-8 is escaped
        return _encode_ascii(record).encode() + b"\n"


def body_of(raw: bytes) -> dict[str, str]:
    """A body as a record has it: text if it is UTF-8, else base64."""
    try:
        return {"body": raw.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(raw).decode()}


def raw_of(record: dict[str, Any]) -> bytes | None:
    """The body of a record; None if it has none, or one that is neither."""
    text, coded = record.get("body"), record.get("body_base64")
    try:
        if isinstance(text, str) and coded is None:
            return text.encode()
        if isinstance(coded, str) and text is None:
            return base64.b64decode(coded, validate=True)
    except (UnicodeEncodeError, binascii.Error, ValueError):
        pass
    return None


class Writer:
    """
    Writes lines, and at the end what tells whether all of them are there.

    Args:
        file: where to.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sum = hashlib.sha256()

    def write(self, record: dict[str, Any]) -> None:
        """Write a line."""
        line = encoded(record)
        self._sum.update(line)
        self._file.write(line)

    def end(self, queues: int, messages: int) -> None:
        """Write the last line."""
        self._file.write(
            encoded({
                "type": END, "queues": queues, "messages": messages, "sha256": self._sum.hexdigest()
            })
        )  # fmt: skip


class Reader:
    """
    Reads lines, and finds out whether all of them are there, as they were written.

    Args:
        file: where from.

    Attributes:
        line: the number of the last line, from 1.
        fault: once the lines are at their end: why they are not all there; None if they are.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sum = hashlib.sha256()
        self._counts = {QUEUE: 0, MESSAGE: 0}
        self.line = 0
        self.fault: str | None = "it has no end"

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """
        The records but for the last, which tells of the others.

        Raises:
            InvalidExport: a line is not a record, or gzip is broken.
        """
        for raw in self._lines():
            self.line += 1
            record = self._record(raw)
            if record is None:  # the file ends within a line
                return
            kind = record.get("type")
            if self.line == 1:
                self._check_first(record)
            elif kind in self._counts:
                self._counts[kind] += 1
            elif kind == END:
                self._check_end(record)
                return
            else:
                raise InvalidExport(
                    self.line,
                    f"has the type {show(kind)}",
                    hint=f"A line is one of {HEADER}, {QUEUE}, {MESSAGE} and {END}.",
                )
            self._sum.update(raw)
            yield record

    def _lines(self) -> Iterator[bytes]:
        try:
            while raw := self._file.readline():
                yield raw
        except EOFError:  # gzip's, of a file that was cut off
            return
        except (gzip.BadGzipFile, zlib.error) as error:
            raise InvalidExport(
                self.line + 1, "can't be unpacked", hint=f"gzip: {error}."
            ) from error

    def _record(self, raw: bytes) -> dict[str, Any] | None:
        try:
            record = json.loads(raw)
        except (ValueError, RecursionError) as error:
            if not raw.endswith(b"\n") and self.line > 1:
                return None
            raise InvalidExport(self.line, "is no JSON", hint=f"{error}.") from error
        if not isinstance(record, dict):
            raise InvalidExport(self.line, "is no JSON object", hint="A line is {...}.")
        return record

    def _check_first(self, record: dict[str, Any]) -> None:
        if record.get("type") != HEADER:
            raise InvalidExport(
                1,
                f"has the type {show(record.get('type'))}",
                hint=f"The first line of an export has the type {HEADER!r}: is this one?",
            )
        if record.get("format") != FORMAT:
            raise InvalidExport(
                1,
                f"tells of the format {show(record.get('format'))}",
                hint=f"This version of rsmq reads format {FORMAT}.",
            )

    def _check_end(self, record: dict[str, Any]) -> None:
        told = record.get("queues"), record.get("messages")
        found = self._counts[QUEUE], self._counts[MESSAGE]
        if told != found:
            self.fault = (
                f"its end tells of {told[0]} queues and {told[1]} messages; {found[0]} and "
                f"{found[1]} are there"
            )
        elif record.get("sha256") != self._sum.hexdigest():
            self.fault = "it was changed: its checksum is another"
        elif next(self._lines(), None) is not None:
            self.fault = f"it goes on behind its end, line {self.line}"
        else:
            self.fault = None
