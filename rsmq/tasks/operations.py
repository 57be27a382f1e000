"""
The operation that begins a map of tasks.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from rsmq.operations.arguments import digits, encode_body
from rsmq.operations.operation import Operation, RetryClass
from rsmq.operations.scripts import loader_of
from rsmq.tasks.body import TASK_CODEC
from rsmq.tasks.signature import Signature, takes_result, with_result
from rsmq.wire.keys import Namespace
from rsmq.wire.limits import utf16_length
from rsmq.worker.operations import MAP_LIFETIME_SECONDS

load = loader_of("tasks")


def start_map(
    namespace: Namespace, map_id: str, items: Sequence[Signature[Any]], then: Signature[Any]
) -> Operation[bool]:
    """
    Store the record of a map, unless it is stored, or its items were sent with a dedup_id.

    Args:
        namespace: the namespace of the queues.
        map_id: the id of the map.
        items: the calls of its messages.
        then: the call that follows the last of them. Its argument RESULT is the list of their
            results.
    """
    target, mark = namespace.queue(then.queue), secrets.token_hex(16)
    queue = namespace.queue(items[0].queue if items else then.queue)
    dedup_id: str = items[0].options.send.get("dedup_id", "") if items else ""
    raw, _ = encode_body(with_result(then, mark).body, TASK_CODEC)
    results = raw.replace(b'"%s"' % mark.encode(), b"\1results\1")
    return Operation(
        load("start_map"),
        (
            namespace.task_map(map_id),
            target.hash,
            *((queue.hash, queue.dedup) if dedup_id else ()),
        ),
        (
            digits(len(items)),
            digits(utf16_length(results.decode())),
            results,
            digits(MAP_LIFETIME_SECONDS * 1000),
            b"1" if takes_result(then) else b"",
            dedup_id.encode(),
        ),
        bool,
        RetryClass.ALWAYS,
        (then.queue,),
    )
