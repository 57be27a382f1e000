# Generated from rsmq/cells/one_cell.py by scripts/generate-sync. Do not edit.
"""
A plain client as a set of one cell.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from rsmq.model import Message
from rsmq.operations.cells import CellRecord

C = TypeVar("C")
T = TypeVar("T")


class OneCell(Generic[C]):
    """
    The calls of a plain client, as ``AsyncCellEngine`` makes them in the cells of a set.

    It adds no command and no check to a call, and no number to an id.

    Attributes:
        number: the number of cells.
        clients: the client, as the only one.
        prompt_clients: the same: it retries, because no other cell can do a call instead.
        watchers: None: the watcher of the client is the only one.
    """

    number: int = 1
    watchers: None = None

    def __init__(self, client: C, ns: str) -> None:
        self.clients: tuple[C, ...] = (client,)
        self.prompt_clients: tuple[C, ...] = self.clients
        self._ns = ns

    @property
    def place(self) -> dict[str, Any]:
        """The arguments of ``from_url`` that name the queues: ``ns``."""
        return {"ns": self._ns}

    def message_class(self, cell: int) -> type[Message[Any]]:  # noqa: ARG002 - there is only one
        """Return the class of received messages."""
        return Message

    def show_id(self, cell: int, id: str) -> str:  # noqa: ARG002 - as above
        """Return the id of a message as the client returns it, from the id as it is stored."""
        return id

    def split_id(self, id: str) -> tuple[int | None, str]:
        """Return the cell of an id of the client, and the id as it is stored."""
        return 0, id

    def client(self, cell: int) -> C:
        """Return the client."""
        return self.clients[cell]

    def prompt_client(self, cell: int) -> C:
        """Return the client."""
        return self.clients[cell]

    def by_cell(self, call: Callable[[C], T]) -> dict[int, T]:
        """Make a call with the client, and return its result by the number of the cell."""
        return {0: call(self.clients[0])}

    def record_of(self, cell: int) -> CellRecord | None:  # noqa: ARG002 - as above
        """Return None, without a call: a plain namespace has no record of a set."""
        return None

    def server_of(self, cell: int) -> Hashable:  # noqa: ARG002 - there is only one
        """Return the same value for every cell."""
        return None

    def note_failure(self) -> None:
        """Do nothing: there is no other server."""
