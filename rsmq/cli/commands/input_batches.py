"""
Bodies from a file or a pipe, in batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader

from rsmq.wire.limits import MAX_BATCH, MAX_BATCH_BYTES

#: How much is read at once, bytes.
_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Batch:
    """
    Pieces that follow each other.

    Attributes:
        first: the number of the first, from 1.
        bodies: the pieces, without their ends.
        size: their bytes, with their ends.
    """

    first: int
    bodies: list[bytes]
    size: int


def batches_of(file: BufferedReader, end: bytes) -> Iterator[Batch]:
    """
    The pieces of a file, in batches that one call can send.

    What has come through a pipe is a batch, so that nothing waits for more.

    Args:
        file: where they are; read from where it stands.
        end: the byte that ends a piece; the last piece may lack it.
    """
    first, rest = 1, [b""]
    for chunk in _chunks(file):
        *pieces, last = chunk.split(end)
        if pieces:
            pieces[0] = b"".join((*rest, pieces[0]))
            rest = []
        rest.append(last)
        for batch in _cut(first, pieces):
            yield batch
            first += len(batch.bodies)
    left = b"".join(rest)
    if left:
        yield Batch(first, [left], len(left))


def _chunks(file: BufferedReader) -> Iterator[bytes]:
    while chunk := file.read1(_CHUNK):  # what there is, without waiting for more
        yield chunk


def _cut(first: int, pieces: list[bytes]) -> Iterator[Batch]:
    begin = size = 0
    for at, piece in enumerate(pieces):
        if at > begin and (at - begin == MAX_BATCH or size + len(piece) > MAX_BATCH_BYTES):
            yield Batch(first + begin, pieces[begin:at], size + at - begin)
            begin, size = at, 0
        size += len(piece)
    if pieces:
        yield Batch(first + begin, pieces[begin:], size + len(pieces) - begin)
