"""
The state of a running worker at one moment: for health checks, the sign of life and tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rsmq.worker.outcome import Policy


@dataclass(frozen=True, slots=True)
class QueueState:
    """
    A queue of a worker.

    Attributes:
        vt: its visibility timeout, seconds.
        policy: the rules for messages that fail.
        closed_reason: why nothing is received; see ``Lane``.
        in_flight: number of messages that are not settled.
        running: number of running calls.
        is_waiting: whether nothing is due, as far as the worker knows.
        prefetch_limit: how many messages may wait for a slot.
    """

    vt: float
    policy: Policy
    closed_reason: str
    in_flight: int
    running: int
    is_waiting: bool
    prefetch_limit: int

    @property
    def is_missing(self) -> bool:
        """Return whether nothing is received because the queue is missing."""
        return self.closed_reason == "m"


@dataclass(frozen=True, slots=True)
class LoopState:
    """
    A worker's loop.

    Attributes:
        has_ended: whether it has ended.
        is_stopping: whether it receives nothing more.
        failure: the exception that ends or ended it; None if there is none.
        heartbeat_at: monotonic seconds of the last heartbeat that Redis has confirmed.
        turn_at: monotonic seconds at which the last turn began.
        has_failing_server: whether calls to the server fail.
        is_stalled: whether its async handlers, or its plain ones, can't be called at the moment.
        queues: its queues, by name.
    """

    has_ended: bool
    is_stopping: bool
    failure: BaseException | None
    heartbeat_at: float
    turn_at: float
    has_failing_server: bool
    is_stalled: bool
    queues: Mapping[str, QueueState]

    @property
    def running(self) -> int:
        """The number of running calls."""
        return sum(queue.running for queue in self.queues.values())

    @property
    def missing_queues(self) -> tuple[str, ...]:
        """The queues whose listeners receive nothing because the queue is missing."""
        return tuple(name for name, queue in self.queues.items() if queue.is_missing)
