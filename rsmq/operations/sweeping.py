"""
Operations on messages that are held back, since another message of their group is admitted.
"""

from __future__ import annotations

from rsmq.operations.operation import Operation, RetryClass, Steps
from rsmq.operations.scripts import load
from rsmq.wire.keys import Namespace


def sweep_groups(namespace: Namespace, qname: str) -> Steps[int]:
    """Admit messages of groups that have none; the result is their number."""
    keys = namespace.queue(qname)
    number, position = 0, b""
    while position is not None:
        position, admitted = yield Operation(
            load("sweep_groups"),
            (keys.hash, keys.zset, keys.admitted, keys.held_back, keys.group_of),
            (position,),
            tuple,
            RetryClass.ALWAYS,
            (keys.name,),
        )
        number += admitted
    return number
