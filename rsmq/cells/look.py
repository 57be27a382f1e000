"""
The looks of a receive at cells, some of which may be down.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from time import monotonic
from typing import Any, Protocol, TypeAlias

from redis.exceptions import RedisError

from rsmq.cells.cell_client import AsyncCellClient
from rsmq.cells.failures import first_error, is_final, is_out_of_memory, may_have_run, pause_seconds
from rsmq.cells.messages import CellMessage
from rsmq.errors import PartlyDone
from rsmq.model import Message
from rsmq.operations.replies import ReceivedMessages
from rsmq.transport.asyncio_.interruption import pause
from rsmq.waiting.cells.queues import CellQueues

#: A function that receives at most so many messages from one cell.
Receive: TypeAlias = Callable[[AsyncCellClient, int], Awaitable[ReceivedMessages]]


class AsyncLookedAt(Protocol):
    """The cells at which a receive looks: those of ``AsyncCellEngine``, which explains them."""

    number: int

    @property
    def retry_deadline(self) -> float: ...

    def next_cell(self) -> int: ...

    def recent_failure(self, cell: int) -> Exception | None: ...

    async def prompt_client(self, cell: int) -> AsyncCellClient: ...

    async def look_at(
        self,
        cell: int,
        client: AsyncCellClient,
        receive: Receive,
        queues: CellQueues,
        *,
        max_messages: int,
        found: list[CellMessage[Any]],
    ) -> None: ...

    async def release(self, messages: Sequence[Message]) -> None: ...


class AsyncLook:
    """
    The looks of one receive at the cells.

    Attributes:
        errors: the last error of each cell that could not be reached.
        cells: the cells at which it has looked, or tried to.
    """

    def __init__(
        self,
        engine: AsyncLookedAt,
        receive: Receive,
        queues: CellQueues,
        max_messages: int,
        *,
        one_cell: bool,
    ) -> None:
        """
        Prepare a look; nothing is received yet.

        Args:
            engine: the cells.
            receive: receives from one cell.
            max_messages: the number of messages at most.
            one_cell: whether the messages must be from one cell, as for a pop.
        """
        self.errors: dict[int, Exception] = {}
        self.cells: set[int] = set()
        self._engine = engine
        self._receive = receive
        self._queues = queues
        self._max_messages = max_messages
        self._one_cell = one_cell
        self._all_down_since: float | None = None

    async def at(self, cells: Iterable[int], *, is_patient: bool = False) -> list[CellMessage[Any]]:
        """
        Receive from these cells, until there are as many messages as wished.

        Args:
            is_patient: whether to try cells again that could not be reached just now.
        """
        found: list[CellMessage[Any]] = []
        try:
            for cell in cells:
                self.cells.add(cell)
                recent = None if is_patient else self._engine.recent_failure(cell)
                if recent is not None and not is_out_of_memory(recent):  # receives free memory
                    self.errors[cell] = recent
                    continue
                try:
                    client = await self._engine.prompt_client(cell)
                except (RedisError, OSError) as error:
                    self.errors[cell] = error
                    continue
                try:
                    await self._engine.look_at(
                        cell,
                        client,
                        self._receive,
                        self._queues,
                        max_messages=self._max_messages,
                        found=found,
                    )
                except (RedisError, OSError) as error:
                    if self._one_cell and may_have_run(error):
                        raise  # it may have popped messages, whose reply was lost
                    self.errors[cell] = error
                    continue
                self.errors.pop(cell, None)
                if len(found) >= self._max_messages or (found and self._one_cell):
                    break
        except BaseException:
            if not self._one_cell:
                await self._engine.release(found)
            raise
        return found

    async def at_all(self) -> list[CellMessage[Any]]:
        """
        Receive from all cells. Those that can't be reached are tried again until the deadline.

        A cell whose server rejects the call is not tried again.

        Raises:
            PartlyDone: no other cell has a message.
            RedisError, OSError: no cell can be reached.
        """
        number = self._engine.number
        first = self._engine.next_cell()
        found = await self.at(each % number for each in range(first, first + number))
        if found:  # at once: a signal must not hide them
            return found
        until = monotonic() + self._engine.retry_deadline
        passes = 0
        while self.errors and not found:
            passes += 1
            seconds = pause_seconds(passes)
            retried = [cell for cell, error in self.errors.items() if not is_final(error)]
            if not retried or monotonic() + seconds >= until:
                self.raise_errors()
            await pause(seconds)
            found = await self.at(retried, is_patient=True)
        return found

    def raise_errors(self) -> None:
        """Raise PartlyDone if some cells could not be reached; if none could, its error."""
        if len(self.errors) == self._engine.number:
            raise first_error(self.errors)
        if self.errors:
            raise PartlyDone(self.errors, self._engine.number, []) from first_error(self.errors)

    def raise_recent_errors(self) -> None:
        """Raise PartlyDone if some cells could not be reached just now, also by other calls."""
        for cell in range(self._engine.number):
            recent = self._engine.recent_failure(cell)
            if recent is not None and not is_out_of_memory(recent):
                self.errors[cell] = recent
        self.raise_errors()

    def raise_errors_of_all(self) -> None:
        """Raise the error if no cell could be reached for longer than the deadline."""
        if len(self.errors) < self._engine.number:
            self._all_down_since = None
        elif self._all_down_since is None:
            self._all_down_since = monotonic()
        elif monotonic() >= self._all_down_since + self._engine.retry_deadline:
            self.raise_errors()
