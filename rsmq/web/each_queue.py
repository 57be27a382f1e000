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
    Return the names of all queues that exist in any cell, each once.

    They are not those of one moment, see ``list_queues_in_steps``.

    Raises:
        PartlyDone: some cells can't be reached.
    """

    async def read(client: Any) -> list[str]:
        names: list[str] = await client.run_steps(list_queues_in_steps(client.namespace))
        return names

    engine: Any = queues.engine
    by_cell: dict[int, list[str]] = await engine.by_cell(read)
    return list(dict.fromkeys(name for names in by_cell.values() for name in names))


async def read_each(
    queues: Client,
    names: Iterable[str],
    read: Callable[[Namespace, Sequence[str]], Operation[Any]],
    *,
    step: int,
    of_cell: Callable[[int, Any], Any] | None = None,
) -> dict[str, list[Any]]:
    """
    Return by queue what was read of it in each cell that has it.

    Other clients may have made queues with other names; those that no call accepts are left out.

    Args:
        read: returns the operation that reads some queues, by their names; it leaves out those that
            are not there, or has None for them.
        step: queues that one operation reads: so many that it takes about half a ms.
        of_cell: returns what to keep, from the number of the cell and what was read.
    """
    found: dict[str, list[Any]] = {}
    readable: list[str] | None = None
    for cell in range(queues.engine.number):
        client: Any = await queues.engine.client(cell)
        namespace = Namespace(client.namespace.name, strict_names=False)
        if readable is None:
            readable = [name for name in names if is_readable(namespace, name)]
        for start in range(0, len(readable), step):
            of_step = await client.run(read(namespace, readable[start : start + step]))
            for name, value in of_step.items():
                if value is not None:
                    kept = value if of_cell is None else of_cell(cell, value)
                    found.setdefault(name, []).append(kept)
    return found


def is_readable(namespace: Namespace, name: str) -> bool:
    """Return whether calls accept the name of a queue."""
    try:
        namespace.queue(name)
    except (InvalidFormat, MissingParameter):
        return False
    return True
