"""
Which lanes may be asked next: of each priority those that were asked longest ago, or whose turns by
their weights are the lowest.

A receive fills the free slots from a few queues. If it asked all of them, a worker of N queues
would pay N times N for a backlog in each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import islice
from operator import attrgetter

from rsmq.worker.state.lane import Lane
from rsmq.worker.state.shares import Shares

#: A receive asks at most so many queues of a priority, or as many as there are slots.
MIN_LANES = 50


class Turns:
    """The lanes by priority, each in the order in which they were last asked."""

    def __init__(self, lanes: Sequence[Lane], slots: int) -> None:
        """
        Make it.

        Args:
            lanes: the lanes.
            slots: maximum number of concurrent calls.
        """
        self._max_lanes = max(slots, MIN_LANES)
        self._by_priority: dict[int, dict[Lane, None]] = {}
        for lane in sorted(lanes, key=lambda each: -each.listener.priority):
            self._by_priority.setdefault(lane.listener.priority, {})[lane] = None

    def note_asked(self, lane: Lane) -> None:
        """Note that a lane was asked: it is the last one of its priority now."""
        lanes = self._by_priority[lane.listener.priority]
        lanes[lane] = lanes.pop(lane)

    def lanes_to_ask(self, can_ask: Callable[[Lane], bool]) -> list[Lane]:
        """
        Return lanes whose queues may have due messages, and lanes of a higher priority.

        The latter may have received messages just now, which must be handled first.

        Args:
            can_ask: returns whether a lane may be asked now.
        """
        asked: list[Lane] = []
        waiting: list[Lane] = []  # of the priorities so far
        for lanes in self._by_priority.values():
            active = list(islice(self._active(lanes, can_ask), self._max_lanes))
            if active:
                asked += [lane for lane in waiting if can_ask(lane)]
                waiting = []
                asked += active
            waiting += self._waiting(lanes)
        return asked

    @staticmethod
    def _active(lanes: dict[Lane, None], can_ask: Callable[[Lane], bool]) -> Iterator[Lane]:
        return (lane for lane in lanes if not lane.is_waiting and can_ask(lane))

    def _waiting(self, lanes: dict[Lane, None]) -> Iterator[Lane]:
        return islice((lane for lane in lanes if lane.is_waiting), self._max_lanes)

    def first_by_shares(
        self, lanes: Sequence[Lane], shares: Mapping[Lane, Shares[Lane]]
    ) -> list[Lane]:
        """
        Return as many of the lanes as ``lanes_to_ask`` does, by their turns.

        Args:
            lanes: those that may be asked.
            shares: by lane, the shares of the lanes of its priority.
        """
        if len(lanes) <= self._max_lanes:
            return list(lanes)
        groups: dict[tuple[int, bool], list[Lane]] = {}
        for lane in lanes:
            groups.setdefault((lane.listener.priority, lane.is_waiting), []).append(lane)

        def turn(lane: Lane) -> float:
            return shares[lane].turn(lane, len(lane.queued))

        first: list[Lane] = []
        for (_, is_waiting), group in groups.items():
            order = attrgetter("last_request_at") if is_waiting else turn
            first += nsmallest(self._max_lanes, group, key=order)
        return first
