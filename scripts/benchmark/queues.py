"""Queues with messages in them."""

from __future__ import annotations

from rsmq import RSMQ

CHUNK = 1000


def body_of(size: int) -> str:
    """The body of that many bytes that all send."""
    return ("0123456789" * (size // 10 + 1))[:size]


def fill(rsmq: RSMQ, queue: str, size: int, count: int) -> None:
    """Add messages to a queue."""
    body = body_of(size)
    for begin in range(0, count, CHUNK):
        rsmq.send_messages(queue, [body] * min(CHUNK, count - begin))
