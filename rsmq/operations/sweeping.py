"""
Operations on messages that are held back, since another message of their group is admitted.
"""

from __future__ import annotations

from rsmq.operations.operation import Steps, on_queue
from rsmq.operations.scripts import load
from rsmq.wire.keys import Namespace


def sweep_groups(namespace: Namespace, qname: str) -> Steps[int]:
    """Admit messages of groups that have none; the result is their number."""
    keys = namespace.queue(qname)
    number, position = 0, b""
    while position is not None:
        position, admitted = yield on_queue(
            keys,
            load("sweep_groups"),
            (keys.hash, keys.zset, keys.admitted, keys.held_back, keys.group_of),
            (position,),
            tuple,
        )
        number += admitted
    return number
