"""
The files of exports: compressed by name, and complete or absent.
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
from typing import BinaryIO, cast

_MAGIC = b"\x1f\x8b"  # of gzip
_BUFFER = 1024 * 1024


@contextmanager
def writing(path: str | None) -> Iterator[BinaryIO]:
    """
    Open a file to be written, which appears under its name once it is whole.

    Args:
        path: packed with gzip if it ends in ``.gz``; a file that is there is replaced. None or
            ``-`` is the standard output. What is not a file (a pipe, a device) is written to
            directly.

    Raises:
        OSError: it can't be written.
    """
    if path in {None, "-"}:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    place = Path(os.path.realpath(str(path)))  # a link stays, and its target is replaced
    if place.exists() and not place.is_file():
        with place.open("wb") as raw, _packed(raw, str(path)) as file:
            yield file
        return
    partial = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
    try:
        try:
            opened = partial.open("xb")
        except OSError as error:  # who named the file knows nothing of this one
            error.filename = str(path)
            raise
        with opened as raw:
            with _packed(raw, str(path)) as file:
                yield file
            raw.flush()
            os.fsync(raw.fileno())
        partial.replace(place)
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()


@contextmanager
def _packed(raw: BinaryIO, path: str) -> Iterator[BinaryIO]:
    if not path.endswith(".gz"):
        yield raw
        return
    with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
        buffered = io.BufferedWriter(cast("io.RawIOBase", packed), _BUFFER)
        yield buffered
        buffered.flush()


@contextmanager
def reading(path: str | None, tell: Callable[[int], None] | None = None) -> Iterator[BinaryIO]:
    """
    Open a file to be read, packed with gzip or not, as its first bytes say.

    Args:
        path: None or ``-`` is the standard input.
        tell: is told how many more bytes of the file have been read.

    Raises:
        OSError: it can't be read.
    """
    if path in {None, "-"}:
        with _unpacked(sys.stdin.buffer, tell) as file:
            yield file
        return
    with Path(str(path)).open("rb") as raw, _unpacked(raw, tell) as file:
        yield file


@contextmanager
def _unpacked(raw: BinaryIO, tell: Callable[[int], None] | None) -> Iterator[BinaryIO]:
    buffered = io.BufferedReader(_Told(raw, tell or (lambda _: None)), _BUFFER)
    if buffered.peek(len(_MAGIC))[: len(_MAGIC)] != _MAGIC:
        yield buffered
        return
    with gzip.GzipFile(fileobj=buffered, mode="rb") as unpacked:
        yield cast("BinaryIO", io.BufferedReader(unpacked, _BUFFER))


class _Told(io.RawIOBase):
    """A file of which somebody is told how far it has been read."""

    def __init__(self, raw: BinaryIO, tell: Callable[[int], None]) -> None:
        super().__init__()
        self._raw = raw
        self._tell = tell

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        # What has come already, so that a pipe's other end is not waited for longer than needed.
        data = self._raw.read1(len(buffer))  # type: ignore[attr-defined]
        buffer[: len(data)] = data
        self._tell(len(data))
        return len(data)
