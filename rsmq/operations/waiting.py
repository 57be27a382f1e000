"""
How long until something is due: what a connection asks that waits for queues.
"""

from __future__ import annotations

from collections.abc import Sequence

from rsmq import protocol
from rsmq.lua import load
from rsmq.operations.operation import Operation, Retry
from rsmq.protocol import Namespace


def due_in(namespace: Namespace, zsets: Sequence[bytes], *, names: bool) -> Operation[list[int]]:
    """
    The ms until the first message of each sorted set is due, 0 if one is.

    -1 where there is none, -2 where there is none and no queue of that name is listed.

    Args:
        namespace: theirs.
        zsets: the ids of the queues' messages.
        names: whether to ask for the names of all queues, which not every user may.
    """
    prefix = len(protocol.encode_name(namespace.name)) + 1
    return Operation(
        load("due_in"),
        (*zsets, namespace.queues) if names else tuple(zsets),
        tuple(zset[prefix:] for zset in zsets),
        lambda reply: list(map(int, reply)),
        Retry.ALWAYS,
    )
