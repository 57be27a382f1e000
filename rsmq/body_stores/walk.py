"""
Walks through all keys of a namespace, for what the steps of bodies name: objects, and ids of keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rsmq._sync.client import RSMQ
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, on_keys
from rsmq.operations.scripts import loader_of
from rsmq.operations.walk import scan_keys
from rsmq.wire.keys import is_body
from rsmq.wire.names import decode_name

load = loader_of("body_stores")

_STEP_VALUES = 100


def read_keys(queues: RSMQ[Any]) -> Iterator[bytes]:
    """Yield the keys of a namespace that may have bodies; some twice."""
    cursor = b"0"
    while True:
        cursor, keys = queues.run(scan_keys(queues.namespace, cursor))
        unused = queues.namespace.unused_bodies
        yield from (key for key in keys if key != unused and not is_body(key))
        if cursor == b"0":
            return


def read_parameters(queues: RSMQ[Any], key: bytes, step: bytes) -> Iterator[str]:
    """Yield what bodies in the values of a key name by a step: once for each value that does."""
    cursor = b"0"
    while True:
        cursor, found = queues.run(_find_step_parameters(key, cursor, step))
        yield from map(decode_name, found)
        if cursor == b"0":
            return


def _find_step_parameters(key: bytes, cursor: bytes, step: bytes) -> Operation[Any]:
    return on_keys(
        load("find_step_parameters"), (key,), (cursor, digits(_STEP_VALUES), step), tuple
    )
