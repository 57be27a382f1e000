"""
The first use of a cell by a worker: its queues, and what a predecessor had in flight there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from rsmq.worker.places.cell_access import CellAccess
from rsmq.worker.registry import HEARTBEAT_SECONDS
from rsmq.worker.state.lane import Cell, Lane

#: Each open cell is checked again once in this time.
ROUND_SECONDS = 60.0


class CellOpener:
    """Opens cells: at the start of the worker, and later those that could not be reached then."""

    def __init__(self, access: CellAccess, lanes: Sequence[Lane], *, has_predecessor: bool) -> None:
        """
        Make it.

        Args:
            lanes: the listeners; each gets its queue in each cell.
            has_predecessor: whether an earlier worker may have had the name.
        """
        self._access = access
        self._lanes = lanes
        self._has_predecessor = has_predecessor
        self._next_check = 0

    def open_all(self) -> bool:
        """
        Open the home and the other cells, except those that can't be reached.

        Returns:
            Whether a predecessor had messages in flight.

        Raises:
            CellsMismatch: a cell belongs to another set.
            RedisError, OSError: the home can't be reached.
        """
        has_dead_messages = self._prepare(self._access.home)
        return self.open_missing() or has_dead_messages

    def open_missing(self) -> bool:
        """Open the cells that are not open, and can be reached. Return as ``open_all`` does."""
        return sum(self.open(number) for number in self._access.missing) > 0

    def check_some(self) -> None:
        """
        Check some of the open cells again, which may be on other servers by now.

        Called at each heartbeat, it checks each cell once in ROUND_SECONDS.

        Raises:
            CellsMismatch: a cell belongs to another set.
        """
        numbers = sorted(self._access.open_cells)
        count = math.ceil(len(numbers) * HEARTBEAT_SECONDS / ROUND_SECONDS)
        if self._next_check >= len(numbers):
            self._next_check = 0
        for number in numbers[self._next_check : self._next_check + count]:
            self._access.attempt(number, partial(self._access.check, number))
        self._next_check += count

    def open(self, number: int) -> bool:
        """
        Open a cell, if it can be reached. Return whether a predecessor had messages there.

        Raises:
            WorkerReplaced: another worker has the name.
            CellsMismatch: the cell belongs to another set.
        """
        return bool(self._access.attempt(number, partial(self._open, number)))

    def _open(self, number: int) -> bool:
        cell = self._access.open(number)
        try:
            return self._prepare(cell)
        except BaseException:
            del self._access.open_cells[number]
            raise

    def _prepare(self, cell: Cell) -> bool:
        if cell is not self._access.home:  # there the worker has done it, to read the attributes
            for lane in self._lanes:
                for name in lane.listener.queues_to_create:
                    cell.client.create_queue(name, exist_ok=True)
        is_taken_over = self._has_predecessor and self._access.take_over(cell) > 0
        for lane in self._lanes:
            if cell.number not in lane.queue_by_cell:
                lane.arrivals.look_at(lane.add_queue(cell))
        return is_taken_over
