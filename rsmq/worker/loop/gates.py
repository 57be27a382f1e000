"""
The gates of a worker's queues: keeps them up to date, and releases messages behind a closed one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from redis.exceptions import ResponseError

from rsmq.errors.guarded_log import get_logger
from rsmq.worker.connection import WorkerConnection
from rsmq.worker.gate import Gate
from rsmq.worker.loop.heartbeat import Heartbeat
from rsmq.worker.middleware import Hooks
from rsmq.worker.state.lane import Lane

_log = get_logger("rsmq.worker")


class Gates:
    """The gates of the lanes that have one. The worker's loop calls it."""

    def __init__(
        self,
        connection: WorkerConnection,
        lanes: Sequence[Lane],
        hooks: Hooks,
        heartbeat: Heartbeat,
    ) -> None:
        self._connection = connection
        self._gates: list[tuple[Lane, Gate]] = [
            (lane, lane.listener.gate) for lane in lanes if lane.listener.gate is not None
        ]
        self._hooks = hooks
        self._heartbeat = heartbeat
        self._states: dict[str, str] = {}
        self._refused: set[str] = set()

    def sync(self, now: float, *, all_of_them: bool = False) -> None:
        """
        Bring the gates up to date that are due, and release what waits behind closed ones.

        Args:
            now: monotonic seconds.
            all_of_them: whether to do that for gates that are not due, too.
        """
        for lane, gate in self._gates:
            if all_of_them or gate.due_at(is_active=_is_active(lane)) <= now:
                self._connection.attempt(partial(self._sync, lane, gate))
            if lane.queued and gate.allowance() == 0:
                self._heartbeat.release_waiting(list(lane.queued))

    def due_at(self) -> float:
        """Return the monotonic seconds at which ``sync`` is to be called next."""
        return min(
            (gate.due_at(is_active=_is_active(lane)) for lane, gate in self._gates),
            default=math.inf,
        )

    def _sync(self, lane: Lane, gate: Gate) -> None:
        try:
            gate.sync(self._connection.client)
        except ResponseError as error:
            gate.sync_alone()
            if lane.name not in self._refused:
                self._refused.add(lane.name)
                _log.error("queue %s: the state of its target is not shared: %s", lane.name, error)
        else:
            self._refused.discard(lane.name)
        state = gate.state
        if self._states.get(lane.name) != state:
            self._states[lane.name] = state
            self._hooks.call("after_target_change", lane.name, gate.target, state, gate.text)


def _is_active(lane: Lane) -> bool:
    return bool(lane.calls or lane.queued)
