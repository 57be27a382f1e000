"""
The state of a tracked message.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic

from rsmq.codecs.type_variables import R_co
from rsmq.errors import JobCancelled, JobExpired, JobFailed, JobNotEnded, NotPossible
from rsmq.wire.jobs import ENDS


class JobState(StrEnum):
    """
    The state of a tracked message; each is equal to its text, as in ``state == "running"``.

    Attributes:
        WAITING: it is in the queue, visible or delayed, and no consumer has it.
        RUNNING: a consumer has received it. A worker may receive a message shortly before it calls
            the handler.
        RETRYING: its handler has failed, and it waits for the next attempt.
        SUCCEEDED: its handler has returned.
        FAILED: its handler has failed for the last time.
        CANCELLED: it was cancelled.
        EXPIRED: it has left the queue, and no outcome is known.
    """

    WAITING = "waiting"
    RUNNING = "running"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


#: The statuses of calls without a message, of which the last ones are kept.
_kept: OrderedDict[tuple[str, str], JobStatus[Any]] = OrderedDict()
_MAX_KEPT = 10_000


def keep_status(status: JobStatus[Any]) -> None:
    """Keep the status of a call without a message, for ``find_status``; from any thread."""
    _kept[status.queue, status.id] = status
    while len(_kept) > _MAX_KEPT:
        with suppress(KeyError):  # another thread has just removed it
            _kept.popitem(last=False)


def find_status(queue: str, id: str) -> JobStatus[Any] | None:
    """Return the status of a call without a message, as in ``Tasks.immediate``, if it is one."""
    return _kept.get((queue, id))


def return_unchanged(value: Any) -> Any:
    """Return a result as it is."""
    return value


class CancelResult(StrEnum):
    """
    The outcome of ``cancel``; each is equal to its text, as in ``result == "requested"``.

    Attributes:
        CANCELLED: the job is cancelled, and its message deleted, now or by an earlier call.
        REQUESTED: a consumer has the message, and is to cancel it.
        ENDED: it had ended otherwise.
    """

    CANCELLED = "cancelled"
    REQUESTED = "requested"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class ReportedProgress:
    """
    How far a handler has come, in its own units.

    Attributes:
        done: how much is done.
        total: how much there is to do; None if it is not known.
        text: what the handler does; may be empty.
    """

    done: float
    total: float | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class FollowingJob:
    """
    The job of a task that followed another one.

    Attributes:
        queue: the name of its queue.
        id: the id of its message.
    """

    queue: str
    id: str


@dataclass(frozen=True, slots=True)
class JobStatus(Generic[R_co]):
    """
    The state of a tracked message.

    Attributes:
        queue: the name of its queue.
        id: its id.
        state: its state.
        attempt: the number of the last attempt, from 1; 0 before the first.
        worker: the name of the worker of that attempt; None before the first.
        begun_at: when a worker received it for that attempt; None before the first.
        ended_at: when it ended; None before.
        error: type and text of the last failure, at most 500 characters; None if there is none.
        raw_result: what the handler returned, as JSON; None unless it has succeeded.
        decode: converts the value of JSON to the result; for a task, by its annotations.
        progress: the last progress of that attempt; None if it has reported none.
        is_cancelling: whether it is to be cancelled, and has not ended yet.
        result_ttl: seconds for which its record lives after its end, as its worker has stored it;
            None if no worker has ended it.
        is_tracked: whether it has a record. Without one, ``state`` is what the message shows.
        following: the job of the task that its ``then`` has sent; of the last message of a map that
            has returned, the one after the map. None if none was sent.
    """

    queue: str
    id: str
    state: JobState
    attempt: int
    worker: str | None
    begun_at: datetime | None
    ended_at: datetime | None
    error: str | None
    raw_result: bytes | None
    decode: Callable[[Any], R_co] = field(default=return_unchanged, repr=False, compare=False)
    progress: ReportedProgress | None = None
    is_cancelling: bool = False
    result_ttl: float | None = None
    is_tracked: bool = True
    following: FollowingJob | None = None

    @property
    def is_ended(self) -> bool:
        """Return whether no worker will handle it any more."""
        return self.state in ENDS

    def result(self) -> R_co:
        """
        Return what the handler returned.

        Raises:
            JobFailed: its handler has failed for the last time.
            JobCancelled: it was cancelled.
            JobExpired: its message is gone, and no outcome is known.
            JobNotEnded: it has not ended.
        """
        self.check_succeeded()
        return self.decode(json.loads(self.raw_result or b"null"))

    def check_succeeded(self) -> None:
        """
        Check that the handler has returned.

        Raises:
            The errors of ``result``.
        """
        if self.state is JobState.FAILED:
            raise JobFailed(self.queue, self.id, self.error or "")
        if self.state is JobState.CANCELLED:
            raise JobCancelled(self.queue, self.id)
        if self.state is JobState.EXPIRED:
            raise JobExpired(self.queue, self.id)
        if not self.is_ended:
            raise self.not_ended(0)

    def not_ended(self, seconds: float) -> JobNotEnded:
        """Return the error of a call that has waited for so many seconds."""
        return JobNotEnded(
            self.queue, self.id, seconds, self.state, self.attempt, is_tracked=self.is_tracked
        )


def find_following(statuses: Iterable[JobStatus[Any]]) -> FollowingJob:
    """
    Return the job that followed one of these, all of which have succeeded.

    Raises:
        The errors of ``JobStatus.result``: one of them has not succeeded.
        NotPossible: no job followed.
    """
    found, last = None, None
    for last in statuses:
        last.check_succeeded()
        found = last.following or found
    if found is None:
        raise NotPossible(
            "No task has followed the job",
            value=last and last.id,
            hint="It was sent without then=, or a worker of an earlier version has ended it.",
        )
    return found


def lost_job(queue: str, id: str) -> JobStatus[Any]:
    """Return the status of a job without a message or a record, which had one before."""
    return JobStatus(queue, id, JobState.EXPIRED, 0, None, None, None, None, None)
