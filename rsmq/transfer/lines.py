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

#: The number of the format in the first line. A reader refuses any other number.
FORMAT = 1

#: The types of lines.
HEADER, QUEUE, MESSAGE, END = "export", "queue", "message", "end"

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_encode_ascii = json.JSONEncoder(separators=(",", ":")).encode


def encode_record(record: dict[str, Any]) -> bytes:
    """Return a record as a line."""
    try:
        return _encode(record).encode() + b"\n"
    except UnicodeEncodeError:  # a name that is not UTF-8 is escaped
        return _encode_ascii(record).encode() + b"\n"


def decode_body(record: dict[str, Any]) -> bytes | None:
    """Return the body of a record; None if it has none, two, or one that can't be decoded."""
    text, base64_text = record.get("body"), record.get("body_base64")
    try:
        if isinstance(text, str) and base64_text is None:
            return text.encode()
        if isinstance(base64_text, str) and text is None:
            return base64.b64decode(base64_text, validate=True)
    except (UnicodeEncodeError, binascii.Error, ValueError):
        pass
    return None


class Writer:
    """
    A writer of records as lines. The last line has counts and a checksum of the others.

    Args:
        file: the binary file to write to.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._checksum = hashlib.sha256()

    def write(self, record: dict[str, Any]) -> None:
        """Write a record as a line."""
        line = encode_record(record)
        self._checksum.update(line)
        self._file.write(line)

    def end(self, queues: int, messages: int) -> None:
        """
        Write the last line.

        Args:
            queues: the number of queues that were written.
            messages: the number of messages that were written.
        """
        self._file.write(
            encode_record(
                {
                    "type": END,
                    "queues": queues,
                    "messages": messages,
                    "sha256": self._checksum.hexdigest(),
                }
            )
        )


class Reader:
    """
    A reader of records, which checks whether the file is complete and unchanged.

    Args:
        file: the binary file to read from, not compressed or opened by ``files.reading``.

    Attributes:
        line: the number of the line that was read last, from 1.
        fault: after the last record: why the file is not what was written; None if it is.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._checksum = hashlib.sha256()
        self._counts = {QUEUE: 0, MESSAGE: 0}
        self.line = 0
        self.fault: str | None = "it has no end"

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """
        Yield the records, without that of the last line, which is checked.

        Raises:
            InvalidExport: a line is not a record of an export, or the gzip data is broken.
        """
        for raw in self._lines():
            self.line += 1
            record = self._parse(raw)
            if record is None:  # the file was cut off within a line
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
            self._checksum.update(raw)
            yield record

    def _lines(self) -> Iterator[bytes]:
        try:
            while raw := self._file.readline():
                yield raw
        except EOFError:  # raised by gzip if the file was cut off
            return
        except (gzip.BadGzipFile, zlib.error) as error:
            raise InvalidExport(
                self.line + 1, "can't be unpacked", hint=f"gzip: {error}."
            ) from error

    def _parse(self, raw: bytes) -> dict[str, Any] | None:
        """Return the record of a line; None if the file was cut off within it."""
        try:
            record = json.loads(raw)
        except (ValueError, RecursionError) as error:
            if not raw.endswith(b"\n") and self.line > 1:
                return None
            raise InvalidExport(self.line, "is not JSON", hint=f"{error}.") from error
        if not isinstance(record, dict):
            raise InvalidExport(self.line, "is not a JSON object", hint="A line is {...}.")
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
                f"has the format {show(record.get('format'))}",
                hint=f"This version of rsmq reads format {FORMAT}.",
            )

    def _check_end(self, record: dict[str, Any]) -> None:
        expected = record.get("queues"), record.get("messages")
        found = self._counts[QUEUE], self._counts[MESSAGE]
        if expected != found:
            self.fault = (
                f"its end line says queues: {expected[0]}, messages: {expected[1]}, but it has "
                f"{found[0]} and {found[1]}"
            )
        elif record.get("sha256") != self._checksum.hexdigest():
            self.fault = "it was changed: its checksum does not match"
        elif next(self._lines(), None) is not None:
            self.fault = f"it continues after its end line, line {self.line}"
        else:
            self.fault = None
