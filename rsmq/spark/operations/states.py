"""
The states of messages, which a read of their column needs.
"""

from __future__ import annotations

from collections.abc import Sequence

from rsmq.operations.operation import Operation, on_queue
from rsmq.operations.scripts import loader_of
from rsmq.wire.keys import QueueKeys

load = loader_of("spark")

#: The most messages of a call.
MAX_STATES = 1000


def find_states(keys: QueueKeys, ids: Sequence[bytes]) -> Operation[list[str | None]]:
    """
    Return the state of each message at one moment; None of one that is not in the queue.

    Args:
        ids: their ids, at most 1,000.
    """
    return on_queue(
        keys,
        load("find_states"),
        (keys.hash, keys.zset),
        (keys.namespace, *ids),
        lambda reply: [each.decode() or None for each in reply],
    )
