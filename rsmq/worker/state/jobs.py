"""
Handler calls, and the messages that a worker has in flight.

Most calls are for one message. Then one object is both the call and the lease of its message.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from rsmq.codecs import Codec
from rsmq.errors import NotTracked
from rsmq.worker.delivery import Delivery, make_delivery
from rsmq.worker.failure import HandlerFailure
from rsmq.worker.listener import Listener
from rsmq.worker.operations import FollowingMessage
from rsmq.worker.outcome import Policy
from rsmq.worker.state.calls import Lease
from rsmq.worker.state.error_reader import read_error
from rsmq.worker.state.lane import Lane
from rsmq.worker.state.message_state import (
    CALL_ABANDONED,
    CALL_RUNNING,
    CALL_WAITING,
    EXPIRE,
    OVER,
    READY,
    change_message,
)
from rsmq.worker.state.progress import HandlerProgress
from rsmq.worker.stop_event import StopEvent


class _Deliverable:
    """A lease that can be passed to a handler."""

    __slots__ = ()

    failure: HandlerFailure | None
    is_cancelled = False
    new_progress = b""

    @property
    def attempt(self: Lease) -> int:
        """The number of the attempt, from 1: its receives without those that began no call."""
        return max(self.count - self.unbegun, 1)

    @property
    def policy(self: Lease) -> Policy:
        """See ``Lease``."""
        return self.job.lane.policy.of_message(self.max_retries)

    @property
    def requested_at(self: Lease) -> float:
        """See ``DeliveredLease``."""
        return self.job.received_at

    @property
    def stopping(self: Lease) -> StopEvent:
        """See ``DeliveredLease``."""
        return self.job.lane.stopping

    @property
    def is_over(self: Lease) -> bool:
        """See ``DeliveredLease``."""
        job = self.job
        if (
            job.call_state is CALL_RUNNING
            and job.ended_at is None
            and time.monotonic() > self.expires_at
        ):
            with job.lane.lock:
                change_message(self, EXPIRE)
        return self.state in OVER or job.call_state is CALL_ABANDONED

    @property
    def error(self: Lease) -> BaseException | None:
        """See ``DeliveredLease``."""
        return None if self.failure is None else self.failure.error

    def fail(self: Lease, error: BaseException) -> None:
        """See ``DeliveredLease``."""
        self.failure = read_error(error, self.job.lane.policy)

    def report_progress(self: Lease, progress: bytes) -> None:  # noqa: ARG002 - see TrackedJob
        """See ``DeliveredLease``."""
        raise NotTracked(self.job.lane.name, self.id)

    def to_delivery(self: Lease, queue: str, codec: Codec) -> Delivery:
        """Return the message as its handler receives it."""
        return make_delivery(self, queue, codec)


class SingleJob(_Deliverable):
    """A message and the call for it, in one object."""

    __slots__ = (
        "call_state",
        "count",
        "ended_at",
        "expires_at",
        "failure",
        "first_received_ms",
        "id",
        "is_quarantined",
        "is_timed_out",
        "is_urgent",
        "lane",
        "max_retries",
        "message_type",
        "next_message",
        "raw",
        "received_at",
        "reference",
        "renew_at",
        "started_at",
        "state",
        "task",
        "unbegun",
    )

    def __init__(  # noqa: PLR0917 - made for every message
        self,
        lane: Lane,
        id: str,
        raw: bytes,
        count: int,
        first_received_ms: int | None,
        received_at: float,
    ) -> None:
        self.lane = lane
        self.id = id
        self.raw = raw
        self.reference: bytes | None = None
        self.count = count
        self.first_received_ms = first_received_ms
        self.received_at = received_at
        self.renew_at = received_at + lane.vt / 3
        self.expires_at = received_at + lane.vt
        self.unbegun = 0
        self.max_retries: int | None = None
        self.state = READY
        self.call_state = CALL_WAITING
        self.is_quarantined = self.is_urgent = self.is_timed_out = False
        self.started_at: float | None = None
        self.ended_at: float | None = None
        self.failure: HandlerFailure | None = None
        self.task: Any = None
        self.next_message: FollowingMessage | None = None
        self.message_type = ""

    @property
    def job(self) -> SingleJob:
        """This object."""
        return self

    @property
    def leases(self) -> Sequence[Lease]:
        """This object, as the only message of the call."""
        return (self,)


class GroupJob(SingleJob):
    """
    A message of several handlers, and the call of those that have not finished.

    Attributes:
        progress: which of them have finished.
        handler: in a child process the name of the handler that it calls; else None.
    """

    __slots__ = ("handler", "progress")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.progress = HandlerProgress()
        self.handler: str | None = None


class TrackedJob(SingleJob):
    """
    A message that has a record, and the call for it.

    Attributes:
        result: what the handler has returned, as JSON. The thread or task of the call writes it.
        new_progress: see ``Lease``. The handler writes it by ``report_progress``, and the loop by
            ``note_progress_written``.
        is_cancelled: see ``DeliveredLease``. Written by ``mark_cancelled``.
    """

    __slots__ = ("is_cancelled", "new_progress", "result")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.renew_at = self.lane.renewal_after(self.received_at)
        self.result = b"null"
        self.new_progress = b""
        self.is_cancelled = False

    def report_progress(self, progress: bytes) -> None:
        """See ``DeliveredLease``."""
        with self.lane.lock:
            is_first, self.new_progress = not self.new_progress, progress
        if is_first:
            self.lane.renew_soon(self)

    def note_progress_written(self, progress: bytes) -> bool:
        """Note that a progress was written. Return whether there is a newer one."""
        with self.lane.lock:
            if self.new_progress is progress:
                self.new_progress = b""
        return bool(self.new_progress)

    def mark_cancelled(self) -> bool:
        """Note that the job is to be cancelled. Return whether this was not known."""
        was_cancelled, self.is_cancelled = self.is_cancelled, True
        return not was_cancelled


def single_job_class(listener: Listener) -> type[SingleJob]:
    """Return the class of the jobs of a listener that have one message."""
    if listener.handlers.is_group:
        return GroupJob
    return SingleJob if listener.result_ttl is None else TrackedJob


class BatchMessage(_Deliverable):
    """A message of a batch."""

    __slots__ = (
        "_job",
        "count",
        "expires_at",
        "failure",
        "first_received_ms",
        "id",
        "max_retries",
        "raw",
        "reference",
        "renew_at",
        "state",
        "unbegun",
    )

    def __init__(self, job: BatchJob, single: SingleJob) -> None:
        """Copy the message from a job that was made for it alone."""
        self._job = job
        self.id = single.id
        self.raw = single.raw
        self.reference: bytes | None = None
        self.count = single.count
        self.first_received_ms = single.first_received_ms
        self.renew_at = single.renew_at
        self.expires_at = single.expires_at
        self.unbegun = single.unbegun
        self.max_retries = single.max_retries
        self.state = READY
        self.failure: HandlerFailure | None = None

    @property
    def job(self) -> BatchJob:
        """The call."""
        return self._job


class BatchJob:
    """A call for several messages."""

    next_message: FollowingMessage | None = None

    __slots__ = (
        "_leases",
        "call_state",
        "ended_at",
        "failure",
        "is_quarantined",
        "is_timed_out",
        "is_urgent",
        "lane",
        "message_type",
        "received_at",
        "started_at",
        "task",
    )

    def __init__(self, lane: Lane, singles: Sequence[SingleJob], received_at: float) -> None:
        self.lane = lane
        self.received_at = received_at
        self.call_state = CALL_WAITING
        self.is_quarantined = self.is_urgent = self.is_timed_out = False
        self.started_at: float | None = None
        self.ended_at: float | None = None
        self.failure: HandlerFailure | None = None
        self.task: Any = None
        self.message_type = ""
        self._leases = [BatchMessage(self, single) for single in singles]

    @property
    def leases(self) -> Sequence[Lease]:
        """The messages."""
        return self._leases
