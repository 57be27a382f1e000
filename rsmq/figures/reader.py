"""
A reader of the figures of queues.

A round reads the attributes of queues, in O(log n) time at most for each. It takes a round trip for
each cell and each fifty queues, and one more for each 1,500 if the queues are listed. The first
round also compares the records of the cells of a set. Nothing is written: cells that were never
used get no record. A cell that fails is left out of the round, and is tried again in the next one;
if all have failed, the round ends with the error.

The number of messages in flight and the oldest message need a walk through the queue. A walk is
made at most every five seconds, and only through queues of up to 10,000 messages. For longer queues
they are estimated: the states of hidden messages by a sample of 400, which is taken as often, and
the first message that is due counts as the oldest. The limit applies to the messages of all cells
of a set together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from redis.exceptions import RedisError, ResponseError

from rsmq._sync.client import RSMQ
from rsmq.cells.records import check_records
from rsmq.cells.totals import add_attributes, add_counts
from rsmq.errors import QueueNotFound, RSMQError
from rsmq.figures.operations import MAX_WALKED_MESSAGES, add_hidden, sample_hidden
from rsmq.model import QueueAttributes
from rsmq.operations.cells import CellRecord
from rsmq.operations.queues import (
    describe_queues,
    get_queue_attributes,
    list_queues_in_steps,
)
from rsmq.transport.retry import is_limited_to_keys
from rsmq.wire.names import is_pattern

T = TypeVar("T")

#: Seconds for which the result of a walk is reused.
FRESH_SECONDS = 5.0
#: Queues whose attributes one script reads.
_QUEUES_PER_STEP = 50


@dataclass(frozen=True, slots=True)
class QueueGauges:
    """
    The figures of one queue.

    Attributes:
        attributes: the queue's attributes as they were read.
        in_flight: messages that were received and are hidden, without those that wait for a retry.
        retrying: messages that wait for a retry after a failure.
        delayed: messages that were never received and are hidden, without those held back.
        oldest_seconds: seconds since the oldest message was sent; None without a message.
        due_seconds: seconds since the message that is received next became visible, at the time of
            the walk; None without a visible message.
        is_estimate: whether in_flight, retrying, delayed and oldest_seconds are estimates.
        margin: by how much in_flight, retrying and delayed differ at most, with a probability of
            95 %; 0 if they are exact.
        held_back: messages that wait for another message of their group.
    """

    attributes: QueueAttributes
    in_flight: int
    retrying: int
    delayed: int
    oldest_seconds: float | None
    due_seconds: float | None
    is_estimate: bool
    margin: int = 0
    held_back: int = 0


@dataclass(frozen=True, slots=True)
class _Walk:
    """The result of a walk at a monotonic time, or the estimate that replaces a walk."""

    walked_at: float
    in_flight: int
    retrying: int
    delayed: int
    oldest_ms: float | None
    due_seconds: float | None
    is_estimate: bool
    margin: int = 0
    held_back: int = 0


class QueueReader:
    """
    The queues of a client, as they were at the begin of a round.

    Attributes:
        failures: the errors by cell of the cells that could not be read in this round.
        records: the record of each cell that was read; None if it has none.
    """

    def __init__(self, rsmq: RSMQ[Any]) -> None:
        self.failures: dict[int, Exception] = {}
        self.records: dict[int, CellRecord | None] = {}
        self._engine = rsmq.engine
        self._cells = rsmq.cells
        #: The listed queues in the order of the cells, and the attributes by queue and cell.
        self._listed: dict[str, None] = {}
        self._read: dict[str, dict[int, QueueAttributes]] = {}
        self._errors: dict[str, Exception] = {}
        self._walks: dict[str, _Walk] = {}

    def begin_round(self, names: Iterable[str]) -> None:
        """
        Begin a round.

        Args:
            names: queues that are read even if they are not listed, and patterns. The listed queues
                are read too if there is a pattern, or no name.

        Raises:
            RedisError, OSError: no cell can be reached.
            CellsMismatch: a cell belongs to another set.
        """
        all_names = list(names)
        named = [name for name in all_names if not is_pattern(name)]
        has_list = not all_names or len(named) < len(all_names)
        self.failures, self._listed, self._read, self._errors = {}, {}, {}, {}
        for cell in range(len(self._cells)):
            self._try(cell, partial(self._read_cell, cell, named, has_list=has_list))
        check_records(
            self.records,
            len(self._cells),
            {cell: client.namespace.name for cell, client in enumerate(self._cells)},
        )

    def _read_cell(self, cell: int, named: list[str], *, has_list: bool) -> None:
        if self.records.get(cell) is None:
            self.records[cell] = self._engine.record_of(cell)
        client = self._engine.prompt_clients[cell]
        if has_list:
            listed = client.run_steps(list_queues_in_steps(client.namespace))
            self._listed |= dict.fromkeys(listed)
            named = list(dict.fromkeys([*listed, *named]))
        for start in range(0, len(named), _QUEUES_PER_STEP):
            self._describe(cell, named[start : start + _QUEUES_PER_STEP])

    def _describe(self, cell: int, names: list[str]) -> None:
        """Read the queues that exist in a cell; of those that can't be read, note the errors."""
        client = self._engine.prompt_clients[cell]
        try:
            found = client.run(describe_queues(client.namespace, names))
        except (ResponseError, RSMQError) as error:
            if not _concerns_queues(error):
                raise
            found = dict.fromkeys(names)
        for name in names:
            try:
                attributes = found.get(name) or client.run(
                    get_queue_attributes(client.namespace, name)
                )
            except QueueNotFound:
                continue
            except (ResponseError, RSMQError) as error:
                if not _concerns_queues(error):
                    raise
                self._errors[name] = error
            else:
                self._read.setdefault(name, {})[cell] = attributes

    def _try(self, cell: int, read: Callable[[], T], *, of_queue: bool = False) -> T | None:
        """
        Read from a cell; if that fails, leave the cell out of this round.

        Args:
            cell: the number of the cell.
            read: reads from it.
            of_queue: whether it reads one queue; then an error of its keys alone is raised.

        Raises:
            RedisError, OSError: all cells have failed.
        """
        if cell not in self.failures:
            try:
                return read()
            except (RedisError, OSError) as error:
                if of_queue and is_limited_to_keys(error):
                    raise
                self.failures[cell] = error
        if len(self.failures) == len(self._cells):
            raise self.failures[0]
        return None

    def list_queues(self) -> Sequence[str]:
        """Return the names of the listed queues."""
        return list(self._listed)

    def get_queue_attributes(self, queue: str) -> QueueAttributes:
        """
        Return the attributes of a queue: the sums of the cells of this round that have it.

        Raises:
            QueueNotFound: no cell has it.
        """
        if queue not in self._read and queue not in self._errors:  # it was neither listed nor named
            self._read[queue] = {}  # it is looked for once in a round
            for cell in range(len(self._cells)):
                self._try(cell, partial(self._describe, cell, [queue]))
        of_cells = self._read.get(queue)
        if of_cells:
            return add_attributes(list(of_cells.values()))
        if queue in self._errors:
            raise self._errors[queue]
        raise QueueNotFound(queue, self._cells[0].namespace.name)

    def _read_in_each(self, queue: str, read: Callable[[RSMQ[Any]], T]) -> list[T]:
        """Return what is read from each cell that has messages of a queue."""
        results = [
            self._try(cell, partial(read, self._cells[cell]), of_queue=True)
            for cell, attributes in self._read.get(queue, {}).items()
            if attributes.messages
        ]
        return [each for each in results if each is not None]

    def clients(self) -> list[RSMQ[Any]]:
        """Return the clients of the cells that have not failed in this round."""
        return [each for cell, each in enumerate(self._cells) if cell not in self.failures]

    def count_in_cell(self, cell: int) -> tuple[int, int]:
        """Return the numbers of queues and of messages of a cell in this round."""
        found = [of_cells[cell].messages for of_cells in self._read.values() if cell in of_cells]
        return len(found), sum(found)

    def read(self, queue: str, attributes: QueueAttributes) -> QueueGauges:
        """
        Return the figures of a queue of this round.

        Args:
            queue: its name.
            attributes: its attributes, as they were just read.
        """
        walk = self._walk(queue, attributes)
        oldest = None if walk.oldest_ms is None else max(time.time() - walk.oldest_ms / 1000, 0)
        return QueueGauges(
            attributes,
            walk.in_flight,
            walk.retrying,
            walk.delayed,
            oldest,
            walk.due_seconds,
            walk.is_estimate,
            walk.margin,
            walk.held_back,
        )

    def _walk(self, queue: str, attributes: QueueAttributes) -> _Walk:
        now = time.monotonic()
        if attributes.messages == 0:
            return _Walk(now, 0, 0, 0, None, None, is_estimate=False)
        walk = self._walks.get(queue)
        if (
            walk is None
            or now - walk.walked_at >= FRESH_SECONDS
            or walk.is_estimate != _is_long(attributes)
        ):
            walk = self._walks[queue] = self._new_walk(queue, attributes, now)
        return walk

    def _new_walk(self, queue: str, attributes: QueueAttributes, now: float) -> _Walk:
        try:
            if _is_long(attributes):
                of_cells = self._read_in_each(
                    queue, lambda client: client.peek_messages(queue, 0, 1)
                )
                first = [message for messages in of_cells for message in messages]
                sent = [message.sent_ms for message in first if message.sent_ms is not None]
                hidden = add_hidden(
                    self._read_in_each(
                        queue,
                        lambda client: client.run(sample_hidden(client.namespace.queue(queue))),
                    )
                )
                return _Walk(
                    now,
                    hidden.in_flight,
                    hidden.retrying,
                    hidden.delayed,
                    min(sent, default=None),
                    _seconds_since(min((each.visible_at_ms for each in first), default=None)),
                    is_estimate=True,
                    margin=hidden.margin,
                    held_back=hidden.held_back,
                )
            counts = add_counts(
                self._read_in_each(queue, lambda client: client.count_messages(queue))
            )
        except QueueNotFound:  # deleted since its attributes were read
            return _Walk(now, 0, 0, 0, None, None, is_estimate=False)
        return _Walk(
            now,
            counts.in_flight,
            counts.retrying,
            counts.delayed,
            counts.oldest_sent_ms,
            _seconds_since(counts.due_since_ms),
            is_estimate=False,
            held_back=counts.held_back,
        )


def _seconds_since(ms: float | None) -> float | None:
    """Return the seconds since a Unix ms; None if it is in the future."""
    seconds = -1.0 if ms is None else time.time() - ms / 1000
    return seconds if seconds >= 0 else None


def _is_long(attributes: QueueAttributes) -> bool:
    return attributes.messages > MAX_WALKED_MESSAGES


def _concerns_queues(error: Exception) -> bool:
    """Return whether an error is one of single queues: a wrong type, or no right for a key."""
    return isinstance(error, RSMQError) or is_limited_to_keys(error)
