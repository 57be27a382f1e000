"""
Reads of queues at each heartbeat: closed queues are looked at again, attributes are read again.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from redis.exceptions import ResponseError

from rsmq.errors import InvalidValue, QueueNotFound
from rsmq.guarded_log import get_logger
from rsmq.worker.places.cell_access import CellAccess
from rsmq.worker.receive.needed_queues import open_needed_queues, warn_of_omission
from rsmq.worker.state.lane import CellQueue, Lane

#: Not the generator of the module, which the application may seed.
_chance = random.SystemRandom()

_log = get_logger("rsmq.worker")

#: Queues whose attributes are read in each heartbeat.
_QUEUES_PER_HEARTBEAT = 10
#: A round through all queues takes as many heartbeats as if there were at least so many queues.
_MIN_QUEUES_PER_ROUND = 100
#: Maximum number of closed queues of a lane that are looked at again in each heartbeat.
_REOPENED_PER_HEARTBEAT = 50


class QueueRefresh:
    """Opens closed queues again, and keeps the attributes of queues up to date."""

    def __init__(self, access: CellAccess, lanes: Sequence[Lane]) -> None:
        self._access = access
        self._lanes = lanes
        #: Why queues could not be created again, as it was logged.
        self._refusals: dict[CellQueue, str] = {}
        self._next_lane = _QUEUES_PER_HEARTBEAT  # the first ones were read when the worker started

    def run(self) -> None:
        """Look again at queues that were closed, and read the attributes of some queues."""
        for lane in self._lanes:
            for queue in _find_closed(lane, "m"):
                number = queue.cell.number
                self._access.attempt(number, partial(self._open_missing, queue))
            _look_again(lane, "p")  # it may have been resumed
        lanes = self._lanes[self._next_lane : self._next_lane + _QUEUES_PER_HEARTBEAT]
        self._next_lane += _QUEUES_PER_HEARTBEAT
        if self._next_lane >= max(len(self._lanes), _MIN_QUEUES_PER_ROUND):
            self._next_lane = 0
        for lane in lanes:
            _look_again(lane, "b")  # it may have been repaired
            if lane.uses_queue_attributes:
                self._access.attempt(self._access.home.number, partial(self._read_attributes, lane))

    def _open_missing(self, queue: CellQueue) -> None:
        """Receive from a missing queue again, if it can be created, or another client has."""
        lane, place = queue.lane, self._access.describe(queue.cell)
        try:
            listener, attributes = open_needed_queues(lane.listener, queue.cell.client)
        except QueueNotFound:
            return
        except (InvalidValue, ResponseError) as error:
            refusal = str(error)
            if refusal != self._refusals.get(queue):
                self._refusals[queue] = refusal
                _log.error("queue %s%s can't be opened again: %s", lane.name, place, refusal)
            return
        _log.info("queue %s%s is back", lane.name, place)
        self._refusals.pop(queue, None)
        if queue.cell is self._access.home:
            lane.apply_queue_attributes(attributes, listener)
            warn_of_omission(lane)
        queue.open()

    def _read_attributes(self, lane: Lane) -> None:
        with suppress(QueueNotFound, InvalidValue, ResponseError):
            lane.apply_queue_attributes(self._access.home.client.get_queue_attributes(lane.name))


def _look_again(lane: Lane, reason: str) -> None:
    """Let the queues of a lane be received from again that were closed for this reason."""
    for queue in _find_closed(lane, reason):
        queue.open()


def _find_closed(lane: Lane, reason: str) -> list[CellQueue]:
    """Return queues of a lane that were closed for this reason."""
    closed = [queue for queue in lane.queues if queue.closed_reason == reason]
    # Of many cells, some at each heartbeat: each costs a script while it is closed.
    if len(closed) > _REOPENED_PER_HEARTBEAT:
        closed = _chance.sample(closed, _REOPENED_PER_HEARTBEAT)
    return closed
