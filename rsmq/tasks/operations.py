"""
The operation that begins a map of tasks.
"""

from __future__ import annotations

from rsmq.operations.arguments import digits, encode_body
from rsmq.operations.operation import Operation, RetryClass
from rsmq.operations.scripts import loader_of
from rsmq.tasks.body import TASK_CODEC
from rsmq.wire.keys import Namespace
from rsmq.worker.operations import MAP_LIFETIME_SECONDS

load = loader_of("tasks")


def start_map(
    namespace: Namespace, map_id: str, messages: int, queue: str, body: object
) -> Operation[bool]:
    """
    Store the record of a map.

    Args:
        namespace: the namespace of the queues.
        map_id: the id of the map.
        messages: how many messages it will have.
        queue: the queue of the task that follows the last of them.
        body: this task.
    """
    target = namespace.queue(queue)
    raw, size = encode_body(body, TASK_CODEC)
    return Operation(
        load("start_map"),
        (namespace.task_map(map_id), target.hash),
        (digits(messages), digits(size), raw, digits(MAP_LIFETIME_SECONDS * 1000)),
        bool,
        RetryClass.ALWAYS,
        (queue,),
    )
