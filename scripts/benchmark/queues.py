"""Queues that are filled with messages."""

from __future__ import annotations

from rsmq import RSMQ

MESSAGES_PER_CALL = 1000


def create_body(size: int) -> str:
    """Return the body of this many bytes that all contenders send."""
    return ("0123456789" * (size // 10 + 1))[:size]


def fill(rsmq: RSMQ, queue: str, size: int, count: int) -> None:
    """Add this many messages to a queue."""
    body = create_body(size)
    for begin in range(0, count, MESSAGES_PER_CALL):
        rsmq.send_messages(queue, [body] * min(MESSAGES_PER_CALL, count - begin))
