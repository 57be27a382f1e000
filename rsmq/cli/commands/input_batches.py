"""
Bodies from a file or a pipe, in batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader

from rsmq.wire.limits import MAX_BATCH, MAX_BATCH_BYTES

#: The most bytes that one read returns.
_CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class InputBatch:
    """
    A batch of consecutive pieces of a file.

    Attributes:
        first: the number of its first piece; the first piece of the file has number 1.
        bodies: the pieces, without terminators.
        size: the size of the pieces in bytes, with terminators.
    """

    first: int
    bodies: list[bytes]
    size: int


def read_batches(file: BufferedReader, terminator: bytes) -> Iterator[InputBatch]:
    """
    Yield the pieces of a file, in batches that one call can send.

    The data that is available in a pipe becomes a batch at once, without waiting for more.

    Args:
        file: the file, which is read from its current position.
        terminator: the byte that ends a piece; the last piece may lack it.
    """
    first, partial = 1, [b""]
    for chunk in _read_chunks(file):
        *pieces, last = chunk.split(terminator)
        if pieces:
            pieces[0] = b"".join((*partial, pieces[0]))
            partial = []
        partial.append(last)
        for batch in _split_into_batches(first, pieces):
            yield batch
            first += len(batch.bodies)
    last_piece = b"".join(partial)
    if last_piece:
        yield InputBatch(first, [last_piece], len(last_piece))


def _read_chunks(file: BufferedReader) -> Iterator[bytes]:
    while chunk := file.read1(_CHUNK_BYTES):  # does not wait for a full chunk
        yield chunk


def _split_into_batches(first: int, pieces: list[bytes]) -> Iterator[InputBatch]:
    start = size = 0
    for index, piece in enumerate(pieces):
        if index > start and (index - start == MAX_BATCH or size + len(piece) > MAX_BATCH_BYTES):
            yield InputBatch(first + start, pieces[start:index], size + index - start)
            start, size = index, 0
        size += len(piece)
    if pieces:
        yield InputBatch(first + start, pieces[start:], size + len(pieces) - start)
