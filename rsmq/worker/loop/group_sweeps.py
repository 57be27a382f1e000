"""
Sweeps of queues that have groups: the workers of a queue make one sweep after the other.

A sweep has many short steps, and any worker may make the next one. Redis stores the position, and
says when to call again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

from redis.exceptions import ResponseError

from rsmq.errors import QueueNotFound
from rsmq.errors.guarded_log import get_logger
from rsmq.transport.retry import is_limited_to_keys
from rsmq.worker.connection import WorkerConnection
from rsmq.worker.operations import sweep_groups_in_turn
from rsmq.worker.state.lane import Lane

_log = get_logger("rsmq.worker")

#: Maximum number of steps of a queue in a turn of the loop. A busy loop has few turns.
MAX_STEPS_PER_TURN = 10
#: A loop that was busy for longer does not catch up with the steps of that time.
_MAX_BEHIND_SECONDS = 1.0
#: The pause after a failed call, and that after one that the user lacks the right to.
_FAILED_PAUSE_SECONDS = 1.0
_REFUSED_PAUSE_SECONDS = 60.0


@dataclass(slots=True)
class _Sweep:
    """
    A sweep of a queue.

    Attributes:
        due_at: monotonic seconds of the next call.
        position: the position of the last step of this worker; empty for none.
        is_refused: whether it was logged that the last call was refused.
    """

    due_at: float = 0.0
    position: bytes = b""
    is_refused: bool = False


class GroupSweeps:
    """
    The part of a worker in the sweeps of its queues. Only the loop's thread uses it.

    Attributes:
        due_at: monotonic seconds at which ``run`` is to be called next.
    """

    def __init__(self, connection: WorkerConnection) -> None:
        self.due_at = math.inf
        self._connection = connection
        self._sweeps: dict[Lane, _Sweep] = {}

    def note(self, lane: Lane) -> None:
        """Take part in the sweeps of the queue of a lane, since it may have groups."""
        if lane not in self._sweeps:
            self._sweeps[lane] = _Sweep()
            self.due_at = 0.0

    def run(self, now: float) -> None:
        """Make the calls that are due, at a time in monotonic seconds."""
        if now < self.due_at:
            return
        for lane, sweep in [*self._sweeps.items()]:
            for _ in range(MAX_STEPS_PER_TURN):
                if now < sweep.due_at:
                    break
                if not self._connection.attempt(partial(self._make_step, lane, sweep, now)):
                    sweep.due_at = now + _FAILED_PAUSE_SECONDS
        self.due_at = min((each.due_at for each in self._sweeps.values()), default=math.inf)

    def _make_step(self, lane: Lane, sweep: _Sweep, now: float) -> bool:
        try:
            step = self._connection.client.run(sweep_groups_in_turn(lane.keys, sweep.position))
        except QueueNotFound:
            step = None
        except ResponseError as error:
            if not is_limited_to_keys(error):
                raise
            self._note_refusal(lane, sweep, error)
            sweep.due_at = now + _REFUSED_PAUSE_SECONDS
            return True
        if step is None:
            del self._sweeps[lane]
            sweep.due_at = math.inf
            return True
        sweep.is_refused = False
        is_in_sweep, sweep.position = bool(sweep.position), step.position
        begin = max(sweep.due_at, now - _MAX_BEHIND_SECONDS) if is_in_sweep else now
        sweep.due_at = begin + step.pause
        return True

    def _note_refusal(self, lane: Lane, sweep: _Sweep, error: ResponseError) -> None:
        if not sweep.is_refused:
            sweep.is_refused = True
            _log.warning("groups of queue %s can't be swept: %s", lane.name, error)
