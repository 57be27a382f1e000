"""
A walk through a queue in steps, as ``fragments/walk.lua`` defines it, and one through all keys.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass, on_keys
from rsmq.operations.scripts import load
from rsmq.wire.keys import Namespace, QueueKeys, escape_pattern
from rsmq.wire.names import encode_name

#: A position in a walk: a score, and the number of ids with this score that were already read.
Position: TypeAlias = tuple[bytes, bytes]


def walk_step(
    name: str,
    keys: QueueKeys,
    position: Position,
    *args: bytes,
    retry: RetryClass = RetryClass.ALWAYS,
) -> Operation[list[Any]]:
    """Return a step of a script that walks; its result is the reply unchanged."""
    return Operation(
        load(name),
        (keys.hash, keys.zset),
        (*position, *args),
        lambda reply: reply,
        retry,
        (keys.name,),
    )


def parse_next_position(reply: list[Any]) -> Position | None:
    """Return where the next step begins; None at the end."""
    return None if reply[0] is None else (reply[0], digits(reply[1]))


def scan_keys(namespace: Namespace, cursor: bytes) -> Operation[tuple[bytes, list[bytes]]]:
    """Run one step of SCAN for a namespace: the next cursor (b'0' at the end), and keys."""
    return on_keys(
        load("scan_keys"),
        (namespace.queues,),
        (cursor, escape_pattern(encode_name(namespace.name)) + b":*"),
        lambda reply: (reply[0], reply[1]),
    )
