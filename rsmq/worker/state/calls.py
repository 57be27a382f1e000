"""
The types of handler calls and of messages in flight. ``jobs.py`` has the classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from rsmq.codecs import Codec
from rsmq.worker.delivery import DeliveredLease, Delivery
from rsmq.worker.failure import HandlerFailure
from rsmq.worker.operations import FollowingMessage
from rsmq.worker.outcome import Policy
from rsmq.worker.state.lane import Lane
from rsmq.worker.state.message_state import CallState, MessageState


class Lease(DeliveredLease, Protocol):
    """
    A message in flight. All times are monotonic seconds of this process.

    Attributes:
        reference: the body as it is in the queue, if it was stored elsewhere and ``raw`` has it
            now; else None. Written by the call that loads it.
        unbegun: how many of its earlier receives began no handler call.
        max_retries: the number of retries that it was sent with; None if it has none.
        policy: the policy of its listener, with this number.
        renew_at: when its visibility timeout is to be extended.
        expires_at: when its visibility timeout ends if it is not extended.
        job: the call that it is for.
        new_progress: the progress that its handler has reported and that is not written yet, as
            ``encode_progress`` returns it; empty if there is none. In a child process the last one.
    """

    reference: bytes | None
    unbegun: int
    max_retries: int | None
    renew_at: float
    expires_at: float
    state: MessageState
    new_progress: bytes

    @property
    def policy(self) -> Policy:
        """See the attributes."""

    @property
    def job(self) -> Job:
        """The call that it is for."""

    def to_delivery(self, queue: str, codec: Codec) -> Delivery:
        """Return the message as its handler receives it."""


class Job(Protocol):
    """
    A call of a handler: waiting for a slot, running or finished.

    Attributes:
        lane: the lane of its messages.
        is_quarantined: whether it runs in quarantine.
        received_at: monotonic seconds at which its messages were requested.
        started_at: monotonic seconds at which the handler was called, or the call was sent to a
            child process; None before.
        ended_at: monotonic seconds at which the handler ended; None before.
        failure: the exception of the handler; None if it returned.
        task: the task that runs it, if it can be cancelled and was not.
        is_urgent: whether it starts before calls of a higher priority.
        is_timed_out: whether it is cancelled because of its max_runtime. Its event loop sets it.
        next_message: what is sent when its message has been handled. Its handler sets it, or the
            thread that waits for its child process; the settler reads it.
        message_type: the type of its message, as its listener's route returns it; empty if there is
            no route, before the call, and if it has no handler. Written as ``next_message``.
    """

    lane: Lane
    is_quarantined: bool
    received_at: float
    started_at: float | None
    ended_at: float | None
    failure: HandlerFailure | None
    call_state: CallState
    task: Any
    is_urgent: bool
    is_timed_out: bool
    next_message: FollowingMessage | None
    message_type: str

    @property
    def leases(self) -> Sequence[Lease]:
        """The messages of the call: one, or those of a batch."""
