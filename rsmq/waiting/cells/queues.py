"""
The queues of a set of cells for which a receive waits, and their sorted sets in each cell.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from rsmq.wire.keys import Namespace
from rsmq.wire.names import encode_name

#: Not the generator of the module, which the application may seed.
_chance = random.SystemRandom()


class CellQueues:
    """
    The sorted sets of some queues in each cell.

    Attributes:
        names: the names of the queues, by priority.
        argument: the name of the only queue, or the names, as ``receive_messages`` takes them.
        by_cell: for each cell its sorted sets, by priority.
        places: the cell and the priority of each sorted set.
    """

    def __init__(self, namespaces: Sequence[Namespace], names: Sequence[str]) -> None:
        """
        Compute the keys.

        Args:
            names: the names of the queues, which have been checked.
        """
        self.names: tuple[str, ...] = tuple(names)
        self.argument: str | tuple[str, ...] = self.names[0] if len(names) == 1 else self.names
        suffixes = [b":" + encode_name(name) for name in names]
        self.by_cell: list[tuple[bytes, ...]] = [
            tuple(encode_name(namespace.name) + suffix for suffix in suffixes)
            for namespace in namespaces
        ]
        self.places: Mapping[bytes | None, tuple[int, int]] = {
            key: (cell, priority)
            for cell, keys in enumerate(self.by_cell)
            for priority, key in enumerate(keys)
        }

    def cells_of(self, keys: Iterable[bytes | None]) -> Iterable[int]:
        """
        Return the cells of sorted sets: by priority, and then in the order of the keys.

        Args:
            keys: sorted sets; None and those of other queues are ignored.
        """
        places = (place for key in keys if (place := self.places.get(key)) is not None)
        if len(self.names) == 1:
            return (cell for cell, _ in places)
        return dict.fromkeys(cell for cell, _ in sorted(places, key=itemgetter(1)))


def sample_cells(cells: Sequence[int], empty_receives: int) -> list[int]:
    """
    Return cells in which to look if the server does not report changes.

    Args:
        empty_receives: how often in a row the last looks found nothing: each doubles the number
            of cells, from two on.
    """
    number = min(len(cells), 2 << min(empty_receives, 10))
    return _chance.sample(cells, number)
