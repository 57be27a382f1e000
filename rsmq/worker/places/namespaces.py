"""
Where a worker works: in one namespace, or in the cells of a set.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol

from rsmq._sync.cells import Cells
from rsmq._sync.client import RSMQ
from rsmq._sync.engine import CellEngine
from rsmq.wire.cells import cell_of_key
from rsmq.worker.delivery import Delivery, delivery_class_of
from rsmq.worker.operations import Identity
from rsmq.worker.places.arrivals import CellArrivals, QueueArrivals
from rsmq.worker.state.lane import Arrivals, Cell, Lane


class Namespaces(Protocol):
    """
    The namespaces of a worker's queues, by number: one, or those of cells.

    Attributes:
        number: how many there are.
        home: the number of the namespace that has the worker's sign of life.
    """

    number: int
    home: int

    def open(self, index: int) -> RSMQ[Any]:
        """
        Return the client of a namespace for the worker's loop.

        A cell is checked at its first use, after a call in it has failed, and each minute.
        """

    def starting_client(self) -> RSMQ[Any]:
        """Return the client of the home for the start of the worker, which may retry calls."""

    def delivery_class(self, index: int) -> type[Delivery]:
        """Return the class of the messages of a namespace."""

    def server_of(self, index: int) -> Hashable:
        """Return a value that is the same for namespaces on one server."""

    def cell_of_queue(self, queue: str) -> int:
        """Return the number of the namespace that has the shared state of a queue."""

    def note_failure(self) -> None:
        """Note that a call failed, so that the namespaces may be on other servers now."""

    def make_arrivals(self, lane: Lane, wake_up: Callable[[], object]) -> Arrivals:
        """Return the arrivals of messages in the queues of a lane."""


class OneNamespace:
    """The only namespace of a worker."""

    number = 1
    home = 0

    def __init__(self, client: RSMQ[Any]) -> None:
        self._client = client

    def open(self, index: int) -> RSMQ[Any]:  # noqa: ARG002 - there is only one
        """See ``Namespaces``."""
        return self._client

    def starting_client(self) -> RSMQ[Any]:
        """See ``Namespaces``."""
        return self._client

    def delivery_class(self, index: int) -> type[Delivery]:  # noqa: ARG002 - as above
        """See ``Namespaces``."""
        return Delivery

    def server_of(self, index: int) -> Hashable:  # noqa: ARG002 - as above
        """See ``Namespaces``."""
        return None

    def cell_of_queue(self, queue: str) -> int:  # noqa: ARG002 - as above
        """See ``Namespaces``."""
        return 0

    def note_failure(self) -> None:
        """See ``Namespaces``."""

    def make_arrivals(self, lane: Lane, wake_up: Callable[[], object]) -> Arrivals:
        """See ``Namespaces``."""
        return QueueArrivals(self._client, lane, wake_up)


class SetOfCells:
    """The cells of a set. The home depends on the worker's name, so it is found again by it."""

    def __init__(self, engine: CellEngine, name: str) -> None:
        self.number = engine.number
        self.home = cell_of_key(name, engine.number)
        self._engine = engine

    def open(self, index: int) -> RSMQ[Any]:
        """See ``Namespaces``. The client does not retry: the loop does, beside other cells."""
        return self._engine.prompt_client(index)

    def starting_client(self) -> RSMQ[Any]:
        """See ``Namespaces``."""
        return self._engine.client(self.home)

    def delivery_class(self, index: int) -> type[Delivery]:
        """See ``Namespaces``."""
        return delivery_class_of(index)

    def server_of(self, index: int) -> Hashable:
        """See ``Namespaces``."""
        return self._engine.server_of(index)

    def cell_of_queue(self, queue: str) -> int:
        """See ``Namespaces``."""
        return cell_of_key(queue, self.number)

    def note_failure(self) -> None:
        """See ``Namespaces``."""
        self._engine.watchers.note_failure()

    def make_arrivals(self, lane: Lane, wake_up: Callable[[], object]) -> Arrivals:
        """See ``Namespaces``."""
        return CellArrivals(self._engine.watchers, self._engine.queues(lane.name), lane, wake_up)


def make_namespaces(rsmq: RSMQ[Any] | Cells, name: str) -> Namespaces:
    """Return the namespaces of a client for the worker of a name."""
    return SetOfCells(rsmq.engine, name) if isinstance(rsmq, Cells) else OneNamespace(rsmq)


def make_cells_of_child(rsmq: RSMQ[Any] | Cells, name: str) -> list[Cell]:
    """Return the cells for a child process, which makes no calls to Redis in them."""
    if not isinstance(rsmq, Cells):
        return [Cell(0, rsmq, Identity(rsmq.namespace, name, ""))]
    return [
        Cell(index, client, Identity(client.namespace, name, ""), delivery_class_of(index))
        for index, client in enumerate(rsmq.cells)
    ]
