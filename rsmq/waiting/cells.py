"""
The queues of a set of cells for which a receive waits, and their grouping by server.

Without I/O. ``cells_sync.py`` and ``cells_aio.py`` wait on the watcher of each server.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable, Mapping, Sequence
from operator import itemgetter

from rsmq.wire.keys import Namespace
from rsmq.wire.names import encode_name

#: Seconds for which the grouping of cells by server is used.
GROUPS_SECONDS = 0.5


class CellQueues:
    """
    The sorted sets of some queues in each cell.

    Attributes:
        names: the names of the queues, by priority.
        by_cell: for each cell its sorted sets, by priority.
        places: the cell and the priority of each sorted set.
    """

    def __init__(self, namespaces: Sequence[Namespace], names: Sequence[str]) -> None:
        """
        Compute the keys.

        Args:
            namespaces: the namespaces of the cells.
            names: the names of the queues, which have been checked.
        """
        self.names = tuple(names)
        suffixes = [b":" + encode_name(name) for name in names]
        self.by_cell = [
            tuple(encode_name(namespace.name) + suffix for suffix in suffixes)
            for namespace in namespaces
        ]
        self.places: Mapping[bytes, tuple[int, int]] = {
            key: (cell, priority)
            for cell, keys in enumerate(self.by_cell)
            for priority, key in enumerate(keys)
        }

    def cells_of(self, keys: Iterable[bytes]) -> list[int]:
        """
        Return the cells of sorted sets, each once: by priority, and then in the order of the keys.

        Args:
            keys: sorted sets; those of other queues are ignored.
        """
        places = [place for key in keys if (place := self.places.get(key)) is not None]
        if len(self.names) > 1:
            places.sort(key=itemgetter(1))
        return list(dict.fromkeys(cell for cell, _ in places))


def group_cells(servers: Sequence[Hashable]) -> dict[Hashable, list[int]]:
    """Return the cells of each server."""
    groups: dict[Hashable, list[int]] = {}
    for cell, server in enumerate(servers):
        groups.setdefault(server, []).append(cell)
    return groups


def sample_cells(cells: Sequence[int], empty_receives: int) -> list[int]:
    """
    Return cells in which to look if the server does not report changes.

    Args:
        cells: the cells of the server.
        empty_receives: how often in a row the last looks found nothing: each doubles the number
            of cells, from two on.
    """
    number = min(len(cells), 2 << min(empty_receives, 10))
    return random.sample(cells, number)
