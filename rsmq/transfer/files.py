"""
The files of exports: opened for reading and writing, with gzip, and replaced atomically.
"""

from __future__ import annotations

import gzip
import io
import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

_GZIP_MAGIC = b"\x1f\x8b"
_BUFFER_BYTES = 1024 * 1024


@contextmanager
def writing(path: str | None) -> Iterator[BinaryIO]:
    """
    Open a file for writing, which gets its name when it is complete.

    If writing fails, an existing file stays as it was.

    Args:
        path: the path; an existing file is replaced. The file is compressed with gzip if the path
            ends in ``.gz``. None or ``-`` is the standard output. A pipe or a device is written
            directly.

    Raises:
        OSError: the file can't be written.
    """
    if path in {None, "-"}:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    place = Path(os.path.realpath(str(path)))  # a link stays: its target is replaced
    if place.exists() and not place.is_file():
        with place.open("wb") as raw, _compressing(raw, str(path)) as file:
            yield file
        return
    partial = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
    try:
        try:
            opened = partial.open("xb")
        except OSError as error:  # the caller does not know the name of this file
            error.filename = str(path)
            raise
        with opened as raw:
            with _compressing(raw, str(path)) as file:
                yield file
            raw.flush()
            os.fsync(raw.fileno())
        partial.replace(place)
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()


@contextmanager
def _compressing(raw: BinaryIO, path: str) -> Iterator[BinaryIO]:
    if not path.endswith(".gz"):
        yield raw
        return
    with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as compressed:
        buffered = _GzipBuffer(compressed)
        yield cast("BinaryIO", buffered)
        buffered.flush()


class _GzipBuffer:
    """
    A buffer before a GzipFile, which is slow for short lines.

    Not io.BufferedWriter: it turns a KeyboardInterrupt that is raised in GzipFile.closed into a
    ValueError.
    """

    def __init__(self, file: gzip.GzipFile) -> None:
        self._file = file
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> int:
        self._parts.append(data)
        self._size += len(data)
        if self._size >= _BUFFER_BYTES:
            self.flush()
        return len(data)

    def flush(self) -> None:
        parts, self._parts, self._size = self._parts, [], 0
        self._file.write(b"".join(parts))


@contextmanager
def reading(
    path: str | None, report_progress: Callable[[int], None] | None = None
) -> Iterator[BinaryIO]:
    """
    Open a file for reading, compressed with gzip or not, as its first bytes show.

    Args:
        path: the path; None or ``-`` is the standard input.
        report_progress: is called after each read with the number of bytes read from the file.

    Raises:
        OSError: the file can't be read.
    """
    if path in {None, "-"}:
        with _decompressing(sys.stdin.buffer, report_progress) as file:
            yield file
        return
    with Path(str(path)).open("rb") as raw, _decompressing(raw, report_progress) as file:
        yield file


@contextmanager
def _decompressing(
    raw: BinaryIO, report_progress: Callable[[int], None] | None
) -> Iterator[BinaryIO]:
    buffered = io.BufferedReader(_FileReader(raw, report_progress), _BUFFER_BYTES)
    if buffered.peek(len(_GZIP_MAGIC))[: len(_GZIP_MAGIC)] != _GZIP_MAGIC:
        yield buffered
        return
    with gzip.GzipFile(fileobj=buffered, mode="rb") as decompressed:
        yield io.BufferedReader(_FileReader(decompressed), _BUFFER_BYTES)


class _FileReader(io.RawIOBase):
    """
    A reader that returns the bytes that are there, instead of waiting until the buffer is full.

    So it returns what a pipe has already, and what can be decompressed of a truncated file.
    """

    def __init__(self, raw: Any, report_progress: Callable[[int], None] | None = None) -> None:
        super().__init__()
        self._raw = raw
        self._report_progress = report_progress or (lambda _: None)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self._raw.read1(len(buffer))
        buffer[: len(data)] = data
        self._report_progress(len(data))
        return len(data)
