"""
How long until something is due: what a connection asks that waits for queues.
"""

from __future__ import annotations

from collections.abc import Sequence

from rsmq.lua import load
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, Retry


def due_in(zsets: Sequence[bytes], names: bytes | None) -> Operation[list[int]]:
    """
    The ms until the first message of each sorted set is due, 0 if one is, -1 if there is none.

    Args:
        zsets: the ids of the queues' messages.
        names: the set of the names of all queues, None where this user may not read it.
    """
    return Operation(
        load("due_in"),
        (*zsets,) if names is None else (*zsets, names),
        (digits(len(zsets)),),
        lambda reply: list(map(int, reply)),
        Retry.ALWAYS,
    )
