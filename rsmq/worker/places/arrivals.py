"""
Which queues of a lane may have messages that are due, as the servers report.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from rsmq._sync.client import RSMQ
from rsmq.waiting.cells.queues import CellQueues, sample_cells
from rsmq.waiting.cells.threads import CellWatchers
from rsmq.waiting.schedule import Waiter
from rsmq.waiting.threads import Watcher
from rsmq.wire.throttle import NO_LIMITS, Limit
from rsmq.worker.state.lane import CellQueue, Lane

#: After a failure of a watcher, the worker looks at the queue again after this time.
_PAUSE_AFTER_FAILURE_SECONDS = 0.5


class QueueArrivals:
    """The arrivals in the only queue of a lane."""

    def __init__(self, client: RSMQ[Any], lane: Lane, wake_up: Callable[[], object]) -> None:
        """
        Make it; the queue may have due messages.

        Args:
            client: the client of the namespace.
            wake_up: called by another thread when messages may be due.
        """
        self._client = client
        self._lane = lane
        self._wake_up = wake_up
        self._waiter: Waiter | None = None
        #: Until then the worker waits although its watcher has failed.
        self._paused_until = -math.inf

    @property
    def is_waiting(self) -> bool:
        """See ``Arrivals``."""
        waiter = self._waiter  # once: another thread may ask
        return waiter is not None and (not waiter.is_awake or time.monotonic() < self._paused_until)

    def next_due(self) -> CellQueue | None:
        """See ``Arrivals``."""
        return None if self.is_waiting else self._lane.queues[0]

    def look_at(self, queue: CellQueue) -> None:  # noqa: ARG002 - there is only one
        """See ``Arrivals``."""
        self.stop()

    def note_look(
        self,
        queue: CellQueue,
        *,
        is_drained: bool,
        has_found: bool,
        limit: Limit | None = None,
    ) -> None:
        """See ``Arrivals``."""
        waiter = self._waiter
        if waiter is not None and waiter.is_awake:
            if has_found:
                self._client.watcher.note_receive(waiter)
                waiter.empty_receives = 0
            else:
                waiter.empty_receives += 1
        if not is_drained:
            self.stop()
            return
        if waiter is None:
            waiter = self._waiter = Waiter((queue.keys.zset,), self._handle_wake_up)
        waiter.limits = {} if limit is None else {queue.keys.zset: limit}
        self._client.watcher.add(waiter)

    def _handle_wake_up(self) -> None:
        # Before the wake-up nothing was due, so the queue did not starve.
        self._lane.last_request_at = time.monotonic()
        if self._waiter is not None and self._waiter.failure is not None:
            self._paused_until = time.monotonic() + _PAUSE_AFTER_FAILURE_SECONDS
        self._wake_up()

    def stop(self) -> None:
        """See ``Arrivals``."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            self._client.watcher.remove(waiter)


class CellArrivals:
    """
    The arrivals in the queue of a lane in each cell.

    The watchers of the servers know cells with due messages. When they know none, a waiter for each
    server is added, and the servers report the next message.
    """

    def __init__(
        self,
        watchers: CellWatchers,
        queues: CellQueues,
        lane: Lane,
        wake_up: Callable[[], object],
    ) -> None:
        """
        Make it; nothing is waited for.

        Args:
            watchers: the watchers of the set.
            queues: the keys of the lane's queue in each cell.
            wake_up: called by another thread when messages may be due.
        """
        self._watchers = watchers
        self._queues = queues
        self._lane = lane
        self._wake_up = wake_up
        #: The cells to look at, beside those that the watchers know.
        self._pending: dict[int, None] = {}
        self._waiters: dict[Watcher, Waiter] = {}
        #: The watchers that will wake their waiters.
        self._watching: set[Watcher] = set()
        self._is_joined = False
        #: The waiters that were woken, and for which cells; None if their watcher has ended.
        self._woken: deque[tuple[Watcher, Waiter, int | None]] = deque()
        #: The waiters that were woken for a cell, until it was looked at.
        self._reasons: dict[int, list[tuple[Watcher, Waiter]]] = {}
        #: Monotonic seconds at which a cell can be looked at that has failed.
        self._retry_at = math.inf
        #: As for ``QueueArrivals``.
        self._paused_until = -math.inf
        self._turn = 0

    @property
    def is_waiting(self) -> bool:
        """See ``Arrivals``."""
        if not self._is_joined:
            return False
        now = time.monotonic()
        return now < self._retry_at and (not self._woken or now < self._paused_until)

    def next_due(self) -> CellQueue | None:
        """See ``Arrivals``. The servers take turns."""
        if self.is_waiting:
            return None
        self._is_joined = False
        self._retry_at = math.inf
        self._collect_wake_ups()
        for cell in list(self._pending):
            if (queue := self._find_open(cell)) is not None:
                return queue
        groups = self._watchers.groups()
        for at in range(len(groups)):
            watcher, _ = groups[(self._turn + at) % len(groups)]
            for key in watcher.due():
                place = self._queues.places.get(key)
                if place is not None and (queue := self._find_open(place[0])) is not None:
                    return queue
        self._join(groups)
        return None

    def _find_open(self, cell: int) -> CellQueue | None:
        """Return the queue of a cell, if it can be received from now."""
        queue = self._lane.queue_by_cell.get(cell)
        if queue is None or queue.closed_reason:
            self._pending.pop(cell, None)
            return None
        retry_at = queue.cell.retry_at()
        if retry_at:
            self._pending[cell] = None
            self._retry_at = min(self._retry_at, retry_at)
            return None
        return queue

    def look_at(self, queue: CellQueue) -> None:
        """See ``Arrivals``."""
        self._pending[queue.cell.number] = None
        self._is_joined = False

    def note_look(
        self,
        queue: CellQueue,
        *,
        is_drained: bool,
        has_found: bool,
        limit: Limit | None = None,
    ) -> None:
        """See ``Arrivals``."""
        cell = queue.cell.number
        self._turn += 1
        self._pending.pop(cell, None)
        limits = NO_LIMITS if limit is None else {0: limit}
        self._watchers.note_look(self._queues, cell, is_drained=is_drained, limits=limits)
        for watcher, waiter in self._reasons.pop(cell, ()):
            if has_found:
                watcher.note_receive(waiter)
                waiter.empty_receives = 0
            else:
                waiter.empty_receives += 1
        self.next_due()

    def stop(self) -> None:
        """See ``Arrivals``."""
        waiters, self._waiters = self._waiters, {}
        self._watching.clear()
        self._is_joined = False
        for watcher, waiter in waiters.items():
            watcher.remove(waiter)
        self._woken.clear()
        self._reasons.clear()

    def _collect_wake_ups(self) -> None:
        while self._woken:
            watcher, waiter, cell = self._woken.popleft()
            self._watching.discard(watcher)
            looks = [] if cell is None else [cell]
            if cell is None or not watcher.is_tracking:
                for each, cells in self._watchers.groups():
                    if each is watcher:
                        looks += sample_cells(cells, waiter.empty_receives)
            if looks:
                self._pending.update(dict.fromkeys(looks))
                self._reasons.setdefault(looks[0], []).append((watcher, waiter))

    def _join(self, groups: Iterable[tuple[Watcher, list[int]]]) -> None:
        """Wait for the reports of all servers."""
        waiters: dict[Watcher, Waiter] = {}
        for watcher, cells in groups:
            waiters[watcher] = waiter = self._waiters.pop(watcher, None) or self._waiter(watcher)
            keys = tuple(self._queues.by_cell[cell][0] for cell in cells if self._can_wait(cell))
            if watcher not in self._watching or waiter.queues != keys:
                watcher.leave(waiter)
                waiter.queues = keys
                if keys:
                    watcher.add(waiter)
                self._watching.add(watcher)
        for watcher, waiter in self._waiters.items():  # their cells are on other servers now
            self._watching.discard(watcher)
            watcher.remove(waiter)
        self._waiters = waiters
        self._is_joined = True

    def _can_wait(self, cell: int) -> bool:
        queue = self._lane.queue_by_cell.get(cell)
        if queue is None or queue.closed_reason:
            return False
        retry_at = queue.cell.retry_at()
        if retry_at:  # it is waited for again when its server is tried again
            self._retry_at = min(self._retry_at, retry_at)
        return not retry_at

    def _waiter(self, watcher: Watcher) -> Waiter:
        """Return a new waiter, which is in no schedule yet."""

        def wake() -> None:  # called by the watcher's thread
            # Before the wake-up nothing was due, so the queue did not starve.
            self._lane.last_request_at = time.monotonic()
            if waiter.failure is not None:
                self._paused_until = time.monotonic() + _PAUSE_AFTER_FAILURE_SECONDS
            reason = waiter.reason
            cell = None if reason is None else self._queues.places[reason][0]
            self._woken.append((watcher, waiter, cell))
            self._wake_up()

        waiter = Waiter((), wake)
        return waiter
