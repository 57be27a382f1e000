"""A set of three cells on one server, and its raw keys."""

from __future__ import annotations

from contextlib import contextmanager

from rsmq import Cells
from rsmq.wire.cells import name_of_cell


class SetOfCells:
    """
    A set of three cells. The client has no cell checked yet, so nothing is stored.

    Attributes:
        client: its client.
        names: the namespace of each cell.
    """

    def __init__(self, url, raw, ns):
        self.url, self.raw, self.ns = url, raw, ns
        self.names = [name_of_cell(ns, index) for index in range(3)]
        self.client = Cells.from_url(url, cells=3, ns=ns)

    def counts(self, queue="q"):
        """Return the number of ids in each cell."""
        return [self.raw.zcard(f"{name}:{queue}") for name in self.names]

    def field(self, name, queue="q"):
        """Return a field of a queue's hash in each cell."""
        return [self.raw.hget(f"{cell}:{queue}:Q", name) for cell in self.names]

    def all_keys(self):
        return sorted(self.raw.keys(f"{{{self.ns}.*"))

    def dump(self):
        return {key: self.raw.dump(key) for key in self.all_keys()}

    def send(self, queue="q", each=2):
        """Send messages to each cell, and return their ids with the numbers of the cells."""
        return [
            f"{index}-{id}"
            for index, client in enumerate(self.client.cells)
            for id in client.send_messages(queue, [f"{index}.{n}" for n in range(each)])
        ]


@contextmanager
def set_of_cells(kind, *arguments):
    """Make a set with a class, and remove its keys at the end."""
    made = kind(*arguments)
    yield made
    made.client.close()
    for key in made.all_keys():
        made.raw.unlink(key)
