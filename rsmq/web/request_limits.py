"""
Limits of a request that hold before anyone is asked who it is from: of its head, and of the time in
which it has to arrive.

The head's limits also hold in an application of another server, which has read it by then.
"""

from __future__ import annotations

from collections.abc import Iterable

#: Bytes of the first line and the headers. As nginx, with four buffers of 16 KiB.
MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 100
#: A head has to arrive within so many seconds, and a new connection has to begin one.
HEAD_SECONDS = 20.0
#: A body has to arrive within so many seconds, and one more for each 16 KiB that have.
BODY_SECONDS = 20.0
BODY_BYTES_A_SECOND = 16 * 1024


def is_head_too_long(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether there are too many headers, or too long ones."""
    number = size = 0
    for name, value in headers:
        number += 1
        size += len(name) + len(value) + 4
    return number > MAX_HEADERS or size > MAX_HEAD_BYTES


def seconds_for_body(size: int) -> float:
    """Return the seconds from the head on in which so many bytes of a body have to arrive."""
    return BODY_SECONDS + size / BODY_BYTES_A_SECOND
