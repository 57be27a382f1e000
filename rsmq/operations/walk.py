"""
A walk through a queue in steps, as ``fragments/walk.lua`` defines it.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from rsmq.lua.load import load
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, Retry
from rsmq.wire.keys import QueueKeys

#: A score, and how many ids of just that score lie behind.
Place: TypeAlias = tuple[bytes, bytes]


def step(
    name: str, keys: QueueKeys, place: Place, *args: bytes, retry: Retry = Retry.ALWAYS
) -> Operation[list[Any]]:
    """A step of a script that walks, whose reply is answered as it is."""
    return Operation(
        load(name),
        (keys.hash, keys.zset),
        (*place, *args),
        lambda reply: reply,
        retry,
        (keys.name,),
    )


def next_place(reply: list[Any]) -> Place | None:
    """Where the next step begins; None at the end."""
    return None if reply[0] is None else (reply[0], digits(reply[1]))
