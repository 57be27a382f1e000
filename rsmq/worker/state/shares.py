"""
Shares of a worker's calls by weight, among the lanes of one priority. Pure.

Stride scheduling: the turn of a lane is the number of its calls divided by its weight, and the lane
with the lowest turn is next. So while all lanes have due messages, each begins calls in proportion
to its weight, however long they take. A lane that had nothing due continues at the turn of the
others. A lane that could not begin calls for another reason, such as its own concurrency, is behind
by at most its share of MAX_CREDIT_CALLS.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

#: How many messages the lanes of one priority prefetch together. So at any moment the calls that
#: have begun differ from the shares by at most about so many.
MAX_SHARED_PREFETCH = 200
#: How many calls the lanes of one priority may be behind together. Those that are prefetched may
#: begin while the messages of another lane arrive.
MAX_CREDIT_CALLS = 2 * MAX_SHARED_PREFETCH

K = TypeVar("K", bound=Hashable)


class Shares(Generic[K]):
    """
    The turns of the lanes of one priority. ``RunQueue`` changes them with its lock.

    Attributes:
        weights: the weight of each lane. Never changes.
    """

    def __init__(self, weights: Mapping[K, int]) -> None:
        self.weights = dict(weights)
        self._turns = dict.fromkeys(weights, 0.0)
        self._credit = MAX_CREDIT_CALLS / sum(weights.values())
        #: The turn of the lane that began last.
        self._now = 0.0
        self._idle: set[K] = set()

    def turn(self, lane: K, waiting: int = 0) -> float:
        """Return the turn of a lane after so many more calls. The lowest turn is next."""
        turn = max(self._turns[lane], self._now - self._credit)
        return turn + waiting / self.weights[lane]

    def begin(self, lane: K) -> None:
        """Count a call of a lane."""
        turn = self.turn(lane)
        self._now = max(self._now, turn)
        self._turns[lane] = turn + 1 / self.weights[lane]

    def leave(self, lane: K) -> None:
        """Note that a lane has nothing due."""
        self._idle.add(lane)

    def join(self, lane: K) -> None:
        """Note that a lane has calls again. It is not behind if it had nothing due before."""
        if lane in self._idle:
            self._idle.remove(lane)
            self._turns[lane] = max(self._turns[lane], self._now)
