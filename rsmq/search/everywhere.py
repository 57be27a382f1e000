"""
A search in all queues for what has a name or an id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rsmq.operations.operation import Operation, on_keys
from rsmq.search.operations import load
from rsmq.wire.keys import QueueKeys
from rsmq.wire.names import decode_name, encode_name

#: Queues of a step: less than a ms of Redis.
QUEUES_PER_STEP = 50


class FoundPlace(NamedTuple):
    """
    A thing that was found.

    Attributes:
        kind: ``message``, ``job``, ``unique_key``, ``group``, ``limit_key``, ``rate`` (a limit
            key that has only a rate), ``task``; of servers also ``queue``, ``worker``, ``flow``.
        queue: the name of its queue; empty without one.
        name: the id of the message, of a key or a group that of one of its messages; of others
            the name.
    """

    kind: str
    queue: str
    name: str


def find_in_queues(queues: Sequence[QueueKeys], name: str) -> Operation[list[FoundPlace]]:
    """
    Find in queues a message, a job, a unique key, a group or a limit key, and tasks.

    Args:
        queues: at most 50, of one namespace.
        name: an id or the name of a key or a group, in full; or a part of the names of tasks.
    """
    keys = [
        key
        for each in queues
        for key in (
            each.hash, each.zset, each.unique, each.admitted, each.held_back, each.calls,
            each.rates, each.job(name),
        )
    ]  # fmt: skip
    return on_keys(
        load("find_in_queues"),
        tuple(keys),
        (encode_name(name), encode_name(name.lower())),
        lambda reply: [
            FoundPlace(kind.decode(), queue.name, decode_name(found))
            for queue, of_queue in zip(queues, reply, strict=True)
            for kind, found in zip(of_queue[::2], of_queue[1::2], strict=True)
        ],
    )
