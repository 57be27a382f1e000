"""
The queues that gauges are read from: those of a namespace, or of all cells of a set.

A namespace is read queue by queue. A set of cells is read in rounds. A round takes two round trips
for each cell, one more for each further hundred queues, and in the first round one more to compare
the cell's record. A cell that fails is left out of the round, and is tried again in the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from redis.exceptions import RedisError, ResponseError

from rsmq._sync.cell_client import CellClient
from rsmq._sync.cells import Cells
from rsmq._sync.client import RSMQ
from rsmq.cells.records import check_records, describe_record, find_mismatches
from rsmq.cells.totals import add_attributes, add_counts
from rsmq.errors import QueueNotFound, RSMQError
from rsmq.model import MessageCounts, QueueAttributes, StoredMessage
from rsmq.operations.cells import CellRecord, claim_cell
from rsmq.operations.queues import describe_queues, get_queue_attributes, list_queues
from rsmq.transport.retry import is_limited_to_keys

T = TypeVar("T")

#: Queues whose attributes one script reads.
_QUEUES_PER_STEP = 100


class QueueSource(Protocol):
    """
    Reads queues.

    Attributes:
        failures: the errors by cell of the cells that could not be read in this round; empty for a
            namespace.
    """

    failures: dict[int, Exception]

    def begin_round(self, names: Iterable[str]) -> None:
        """
        Begin a round.

        Args:
            names: queues that are read even if they are not listed.

        Raises:
            RedisError, OSError: no cell can be reached.
            CellsMismatch: a cell belongs to another set.
        """

    def list_queues(self) -> Sequence[str]:
        """Return the names of the listed queues."""

    def get_queue_attributes(self, queue: str) -> QueueAttributes:
        """Return the attributes of a queue; raise QueueNotFound if it does not exist."""

    def count_messages(self, queue: str) -> MessageCounts:
        """Return the number of messages of a queue by state."""

    def find_first(self, queue: str) -> list[StoredMessage]:
        """Return the message that is received next; of cells, that of each."""

    def clients(self) -> Iterator[RSMQ[Any]]:
        """Yield the client of the namespace, or those of the cells that have not failed."""


def make_source(rsmq: RSMQ[Any] | Cells) -> QueueSource:
    """Return the source of a client."""
    return CellsSource(rsmq) if isinstance(rsmq, Cells) else NamespaceSource(rsmq)


class NamespaceSource:
    """The queues of a namespace, of which every call reads from Redis."""

    def __init__(self, rsmq: RSMQ[Any]) -> None:
        self.failures: dict[int, Exception] = {}
        self._rsmq = rsmq

    def begin_round(self, names: Iterable[str]) -> None:
        """See ``QueueSource``."""

    def list_queues(self) -> Sequence[str]:
        """See ``QueueSource``."""
        return self._rsmq.list_queues()

    def get_queue_attributes(self, queue: str) -> QueueAttributes:
        """See ``QueueSource``."""
        return self._rsmq.get_queue_attributes(queue)

    def count_messages(self, queue: str) -> MessageCounts:
        """See ``QueueSource``."""
        return self._rsmq.count_messages(queue)

    def find_first(self, queue: str) -> list[StoredMessage]:
        """See ``QueueSource``."""
        return self._rsmq.peek_messages(queue, 0, 1)

    def clients(self) -> Iterator[RSMQ[Any]]:
        """See ``QueueSource``."""
        yield self._rsmq


class CellsSource:
    """
    The queues of a set of cells, as they were at the begin of a round.

    Nothing is written: cells that were never used get no record.
    """

    def __init__(self, cells: Cells) -> None:
        self.failures: dict[int, Exception] = {}
        self._cells = cells.cells
        self._records: dict[int, CellRecord | None] = {}
        #: The listed queues in the order of the cells, and the attributes by queue and cell.
        self._listed: dict[str, None] = {}
        self._read: dict[str, dict[int, QueueAttributes]] = {}
        self._errors: dict[str, Exception] = {}

    def begin_round(self, names: Iterable[str]) -> None:
        """See ``QueueSource``."""
        named = list(names)
        self.failures, self._listed, self._read, self._errors = {}, {}, {}, {}
        for cell, client in enumerate(self._cells):
            self._try(cell, partial(self._read_cell, cell, client, named))
        check_records(
            self._records,
            len(self._cells),
            {cell: client.namespace.name for cell, client in enumerate(self._cells)},
        )
        if len(self.failures) == len(self._cells):
            raise self.failures[0]

    def _read_cell(self, cell: int, client: CellClient, named: list[str]) -> None:
        if self._records.get(cell) is None:
            claim = claim_cell(client.namespace, "", cell, len(self._cells))
            self._records[cell] = client.run_once(claim)
        listed = client.run_once(list_queues(client.namespace))
        self._listed |= dict.fromkeys(listed)
        names = list(dict.fromkeys([*listed, *named]))
        for start in range(0, len(names), _QUEUES_PER_STEP):
            step = names[start : start + _QUEUES_PER_STEP]
            for name, attributes in self._describe(client, step):
                self._read.setdefault(name, {})[cell] = attributes

    def _describe(
        self, client: CellClient, names: list[str]
    ) -> Iterator[tuple[str, QueueAttributes]]:
        """Yield the queues that exist; of those that can't be read, note the errors."""
        try:
            found = client.run_once(describe_queues(client.namespace, names))
        except (ResponseError, RSMQError) as error:
            if not _concerns_queues(error):
                raise
            found = dict.fromkeys(names)
        for name in names:
            attributes = found.get(name)
            try:
                yield (
                    name,
                    attributes or client.run_once(get_queue_attributes(client.namespace, name)),
                )
            except QueueNotFound:
                continue
            except (ResponseError, RSMQError) as error:
                if not _concerns_queues(error):
                    raise
                self._errors[name] = error

    def _read_unlisted(self, queue: str) -> None:
        """Read a queue that was neither listed nor named; it is looked for once in a round."""
        found = self._read.setdefault(queue, {})
        for cell, client in enumerate(self._cells):
            for _, attributes in (
                self._try(cell, partial(self._describe_all, client, [queue])) or ()
            ):
                found[cell] = attributes

    def _describe_all(
        self, client: CellClient, names: list[str]
    ) -> list[tuple[str, QueueAttributes]]:
        return list(self._describe(client, names))

    def _try(self, cell: int, read: Callable[[], T]) -> T | None:
        """Read from a cell; if that fails, leave the cell out of this round."""
        if cell in self.failures:
            return None
        try:
            return read()
        except (RedisError, OSError) as error:
            self.failures[cell] = error
            return None

    def list_queues(self) -> Sequence[str]:
        """See ``QueueSource``."""
        return list(self._listed)

    def get_queue_attributes(self, queue: str) -> QueueAttributes:
        """Return the sums of the cells of this round that have the queue."""
        if queue not in self._read and queue not in self._errors:
            self._read_unlisted(queue)
        of_cells = self._read.get(queue)
        if of_cells:
            return add_attributes(list(of_cells.values()))
        if queue in self._errors:
            raise self._errors[queue]
        raise QueueNotFound(queue, self._cells[0].namespace.name)

    def count_messages(self, queue: str) -> MessageCounts:
        """See ``QueueSource``. Only cells that have messages of the queue are read."""
        counts = [
            counted
            for cell, client in self._cells_with_messages(queue)
            if (counted := self._try(cell, partial(client.count_messages, queue)))
        ]
        return add_counts(counts)

    def find_first(self, queue: str) -> list[StoredMessage]:
        """See ``QueueSource``."""
        return [
            message
            for cell, client in self._cells_with_messages(queue)
            for message in self._try(cell, partial(client.peek_messages, queue, 0, 1)) or ()
        ]

    def _cells_with_messages(self, queue: str) -> Iterator[tuple[int, CellClient]]:
        for cell, attributes in self._read.get(queue, {}).items():
            if attributes.messages:
                yield cell, self._cells[cell]

    def count_in_cell(self, cell: int) -> tuple[int, int]:
        """Return the numbers of queues and of messages of a cell in this round."""
        found = [of_cells[cell].messages for of_cells in self._read.values() if cell in of_cells]
        return len(found), sum(found)

    def has_record(self, cell: int) -> bool:
        """Return whether a cell has a record of its set: a client of the set has used it."""
        return self._records.get(cell) is not None

    def find_mismatches(self) -> dict[int, str]:
        """Return for each cell that belongs to another set a text that says so."""
        return {
            cell: f"It is {describe_record(stored)}, and not {describe_record(expected)}"
            for cell, (stored, expected) in find_mismatches(self._records, len(self._cells)).items()
        }

    def clients(self) -> Iterator[RSMQ[Any]]:
        """See ``QueueSource``."""
        for cell, client in enumerate(self._cells):
            if cell not in self.failures:
                yield client


def _concerns_queues(error: Exception) -> bool:
    """Return whether an error is one of single queues: a wrong type, or no right for a key."""
    return isinstance(error, RSMQError) or is_limited_to_keys(error)
