"""
Reads of many queues, two hundred in a script.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rsmq.errors import InvalidFormat, MissingParameter
from rsmq.operations.operation import Operation
from rsmq.web.table import Client
from rsmq.wire.keys import Namespace

#: Queues that one script reads.
_STEP = 200


async def read_each(
    queues: Client,
    names: Iterable[str],
    read: Callable[[Namespace, Sequence[str]], Operation[Any]],
) -> dict[str, list[Any]]:
    """
    Return by queue what was read of it in each cell that has it.

    Other clients may have made queues with other names; those that no call accepts are left out.

    Args:
        read: returns the operation that reads some queues, by their names; it leaves out those that
            are not there, or has None for them.
    """
    found: dict[str, list[Any]] = {}
    readable: list[str] | None = None
    for cell in range(queues.engine.number):
        client: Any = await queues.engine.client(cell)
        namespace = Namespace(client.namespace.name, strict_names=False)
        if readable is None:
            readable = [name for name in names if is_readable(namespace, name)]
        for start in range(0, len(readable), _STEP):
            of_step = await client.run(read(namespace, readable[start : start + _STEP]))
            for name, value in of_step.items():
                if value is not None:
                    found.setdefault(name, []).append(value)
    return found


def is_readable(namespace: Namespace, name: str) -> bool:
    """Return whether calls accept the name of a queue."""
    try:
        namespace.queue(name)
    except (InvalidFormat, MissingParameter):
        return False
    return True
