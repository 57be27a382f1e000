"""
Reads of many queues, in steps that hold Redis for a fraction of a millisecond each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rsmq.errors import InvalidFormat, MissingParameter
from rsmq.operations.operation import Operation
from rsmq.operations.queues import list_queues_in_steps
from rsmq.web.client import Client
from rsmq.wire.keys import Namespace


async def list_names(queues: Client) -> list[str]:
    """
    Return the names of all queues that exist.

    They are not those of one moment, see ``list_queues_in_steps``.
    """
    names: list[str] = await queues.run_steps(list_queues_in_steps(queues.namespace))
    return names


async def read_each(
    queues: Client,
    names: Iterable[str],
    read: Callable[[Namespace, Sequence[str]], Operation[Any]],
    *,
    step: int,
) -> dict[str, Any]:
    """
    Return by queue what was read of it, of those that are there.

    Other clients may have made queues with other names; those that no call accepts are left out.

    Args:
        read: returns the operation that reads some queues, by their names; it leaves out those that
            are not there, or has None for them.
        step: queues that one operation reads: so many that it takes about half a ms.
    """
    found: dict[str, Any] = {}
    namespace = Namespace(queues.namespace.name, strict_names=False)
    readable = [name for name in names if is_readable(namespace, name)]
    for start in range(0, len(readable), step):
        of_step = await queues.run(read(namespace, readable[start : start + step]))
        found |= {name: value for name, value in of_step.items() if value is not None}
    return found


def is_readable(namespace: Namespace, name: str) -> bool:
    """Return whether calls accept the name of a queue."""
    try:
        namespace.queue(name)
    except (InvalidFormat, MissingParameter):
        return False
    return True
