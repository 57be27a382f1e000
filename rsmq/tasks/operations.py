"""
Operations of tasks that are followed by another task.
"""

from __future__ import annotations

from rsmq.lua.load import loader_of
from rsmq.model import Message
from rsmq.operations.arguments import digits, encode_body, resolve_message
from rsmq.operations.operation import Operation, RetryClass
from rsmq.tasks.body import TASK_CODEC
from rsmq.wire.ids import make_id_suffix
from rsmq.wire.keys import Namespace
from rsmq.wire.names import decode_name

load = loader_of("tasks")

#: How long the record of a map is stored after its start, and after each of its messages.
MAP_LIFETIME_SECONDS = 7 * 24 * 3600
_LIFETIME_MS = MAP_LIFETIME_SECONDS * 1000


def finish_task(
    namespace: Namespace,
    message: Message,
    queue: str,
    body: object,
    *,
    map_id: str = "",
    number: str = "",
    realtime: bool,
    result_ttl: float | None = None,
    result: bytes = b"",
    progress: bytes = b"",
) -> Operation[str | None]:
    """
    Delete the message of a finished task, and send the next one; of a map only after all others.

    A repeated call changes nothing more, because the message is gone.

    Args:
        namespace: the namespace of the queues, in a set of cells that of the message's cell.
        message: the message, as its handler received it.
        queue: the name of the queue of the next task.
        body: the next task; None for a map, whose record has it.
        map_id: the id of the map; empty if the message is not of a map.
        number: the number of the message in the map.
        realtime: whether the send publishes Node's notification.
        result_ttl: seconds for which the record of the message lives; None if it is not tracked.
        result: the result for the record, as JSON.
        progress: the last progress for the record; empty if none is new.

    Returns:
        The id of the next task; empty if others of the map are unfinished; None if the message was
        received again since, or is gone.
    """
    own, raw_id, count = resolve_message(namespace, message, None)
    target = namespace.queue(queue)
    raw, size = (b"", 0) if body is None else encode_body(body, TASK_CODEC)
    return Operation(
        load("finish_task"),
        (
            own.hash,
            own.zset,
            target.hash,
            target.zset,
            namespace.task_map(map_id) if map_id else own.hash,
        ),
        (
            raw_id,
            count,
            number.encode(),
            raw,
            digits(size),
            make_id_suffix(),
            target.channel if realtime else b"",
            digits(_LIFETIME_MS),
            b"" if result_ttl is None else digits(round(result_ttl * 1000)),
            result,
            progress,
        ),
        lambda reply: None if reply is None else decode_name(reply),
        RetryClass.ALWAYS,
        (target.name, own.name),
    )


def start_map(namespace: Namespace, map_id: str, messages: int, body: object) -> Operation[bool]:
    """
    Store the record of a map.

    Args:
        namespace: the namespace of the queues.
        map_id: the id of the map.
        messages: how many messages it will have.
        body: the task that follows the last of them.
    """
    raw, size = encode_body(body, TASK_CODEC)
    return Operation(
        load("start_map"),
        (namespace.task_map(map_id),),
        (digits(messages), digits(size) + b":" + raw, digits(_LIFETIME_MS)),
        bool,
        RetryClass.ALWAYS,
    )
