"""
Reads of queues at each heartbeat: closed queues are looked at again, attributes are read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from redis.exceptions import ResponseError

from rsmq.errors import InvalidValue, QueueNotFound
from rsmq.errors.guarded_log import get_logger
from rsmq.worker.connection import WorkerConnection
from rsmq.worker.needed_queues import open_needed_queues, warn_of_omission
from rsmq.worker.state.lane import Lane

_log = get_logger("rsmq.worker")

#: Queues whose attributes are read in each heartbeat.
_QUEUES_PER_HEARTBEAT = 10
#: A round through all queues takes as many heartbeats as if there were at least so many queues.
_MIN_QUEUES_PER_ROUND = 100


class QueueRefresh:
    """Opens closed queues again, and keeps the attributes of queues up to date."""

    def __init__(self, connection: WorkerConnection, lanes: Sequence[Lane]) -> None:
        self._connection = connection
        self._lanes = lanes
        #: Why queues could not be created again, as it was logged.
        self._refusals: dict[Lane, str] = {}
        self._next_lane = _QUEUES_PER_HEARTBEAT  # the first ones were read when the worker started

    def run(self) -> None:
        """Look again at queues that were closed, and read the attributes of some queues."""
        for lane in self._lanes:
            if lane.closed_reason == "m":
                self._connection.attempt(partial(self._open_missing, lane))
            _look_again(lane, "p")  # it may have been resumed
        lanes = self._lanes[self._next_lane : self._next_lane + _QUEUES_PER_HEARTBEAT]
        self._next_lane += _QUEUES_PER_HEARTBEAT
        if self._next_lane >= max(len(self._lanes), _MIN_QUEUES_PER_ROUND):
            self._next_lane = 0
        for lane in lanes:
            _look_again(lane, "b")  # it may have been repaired
            if lane.uses_queue_attributes:
                self._connection.attempt(partial(self._read_attributes, lane))

    def _open_missing(self, lane: Lane) -> None:
        """Receive from a missing queue again, if it can be created, or another client has."""
        try:
            listener, attributes = open_needed_queues(lane.listener, self._connection.client)
        except QueueNotFound:
            return
        except (InvalidValue, ResponseError) as error:
            refusal = str(error)
            if refusal != self._refusals.get(lane):
                self._refusals[lane] = refusal
                _log.error("queue %s can't be opened again: %s", lane.name, refusal)
            return
        _log.info("queue %s is back", lane.name)
        self._refusals.pop(lane, None)
        lane.apply_queue_attributes(attributes, listener)
        warn_of_omission(lane)
        lane.open()

    def _read_attributes(self, lane: Lane) -> None:
        with suppress(QueueNotFound, InvalidValue, ResponseError):
            lane.apply_queue_attributes(self._connection.client.get_queue_attributes(lane.name))


def _look_again(lane: Lane, reason: str) -> None:
    """Let the queue of a lane be received from again if it was closed for this reason."""
    if lane.closed_reason == reason:
        lane.open()
