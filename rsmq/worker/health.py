"""
The state of a worker for probes: whether it is alive, and whether it is ready for messages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rsmq.wire.workers import TTL

#: A worker whose loop makes no turn for so long is not healthy. A call to a Redis that hangs takes
#: less.
MAX_TURN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Health:
    """
    The state of a worker at one moment.

    Attributes:
        is_running: whether its loop runs.
        is_stopping: whether it receives nothing more.
        heartbeat_age_seconds: seconds since the last heartbeat that Redis has confirmed.
        turn_age_seconds: seconds since the last turn of its loop began.
        missing_queues: the queues that are missing, and are waited for.
        is_stalled: whether its async handlers, or its plain ones, can't be called at the moment: a
            handler blocks the event loop, or the system allows no thread.
        has_failed: whether an error ends the worker, or has ended it; also if the event loop or a
            thread of its handlers has ended.
    """

    is_running: bool = False
    is_stopping: bool = False
    heartbeat_age_seconds: float = math.inf
    turn_age_seconds: float = 0.0
    missing_queues: tuple[str, ...] = ()
    has_failed: bool = False
    is_stalled: bool = False

    @property
    def is_healthy(self) -> bool:
        """Return whether the worker makes progress; also true while Redis is away."""
        return not self.has_failed and self.turn_age_seconds < MAX_TURN_SECONDS

    @property
    def is_ready(self) -> bool:
        """Return whether the worker receives messages from its queues, and Redis answers."""
        has_ended = self.is_stopping or self.has_failed or not self.is_running
        if has_ended or self.is_stalled or self.missing_queues:
            return False
        return self.heartbeat_age_seconds < TTL
