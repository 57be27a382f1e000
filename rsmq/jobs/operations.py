"""
Operations on the records of tracked messages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from rsmq.jobs.status import CancelResult, FollowingJob, JobState, JobStatus, ReportedProgress
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass, on_queue
from rsmq.operations.scripts import loader_of
from rsmq.wire.jobs import DEFAULT_RESULT_TTL_SECONDS, ENDS
from rsmq.wire.keys import QueueKeys, escape_pattern
from rsmq.wire.names import decode_name, decode_names, encode_name, encode_names

load = loader_of("jobs")

T = TypeVar("T")

#: Maximum number of records in one call of ``read_jobs``: their results may be large.
MAX_READ = 100
#: About how many keys of the database one call of ``find_jobs`` looks at: less than 1 ms of Redis.
_KEYS_PER_STEP = 1000


@dataclass(frozen=True, slots=True)
class JobRecord:
    """
    The record of a tracked message as it is stored, with the state that the message shows.

    Attributes:
        state: as in ``JobState``.
        stored: the state of the record; None if there is only a message.
        begun, ended: Unix ms.
        cancel: Unix ms of the call that asked to cancel it; None if none has, or it has ended.
        done, total, text: its progress.
        ttl: ms for which it lives after its end, if that is not an hour.
        following: id and queue of the message that its ``then`` has sent.
    """

    state: bytes
    stored: bytes | None
    attempt: bytes | None
    worker: bytes | None
    begun: bytes | None
    ended: bytes | None
    result: bytes | None
    error: bytes | None
    cancel: bytes | None
    done: bytes | None
    total: bytes | None
    text: bytes | None
    ttl: bytes | None
    following: bytes | None

    def to_status(self, queue: str, id: str, decode: Callable[[Any], T]) -> JobStatus[T]:
        """Return it as the clients return it."""
        state = JobState(decode_name(self.state))
        ttl = DEFAULT_RESULT_TTL_SECONDS if self.ttl is None else int(self.ttl) / 1000
        return JobStatus(
            queue,
            id,
            state,
            int(self.attempt or 0),
            None if self.worker is None else decode_name(self.worker),
            _to_time(self.begun),
            _to_time(self.ended),
            None if self.error is None else self.error.decode(errors="replace"),
            self.result,
            decode,
            None
            if self.done is None
            else ReportedProgress(
                json.loads(self.done),
                json.loads(self.total) if self.total else None,
                (self.text or b"").decode(errors="replace"),
            ),
            self.cancel is not None,
            ttl if state in {JobState.SUCCEEDED, JobState.FAILED} else None,
            self.stored is not None,
            None
            if self.following is None
            else FollowingJob(*reversed(decode_name(self.following).split(" ", 1))),
        )


def _to_time(ms: bytes | None) -> datetime | None:
    return None if ms is None else datetime.fromtimestamp(int(ms) / 1000, UTC)


def read_jobs(
    queue: QueueKeys, ids: Sequence[str], *, only_reads: bool
) -> Operation[list[JobRecord | bool]]:
    """
    Read the records of messages.

    Args:
        ids: the ids of the messages, at most MAX_READ.
        only_reads: whether nothing is written; else the record of a job ends whose message has left
            the queue without an outcome.

    Returns:
        For each message its record. If there is neither a record nor a message: whether there is a
        queue.
    """
    return on_queue(
        queue,
        load("read_jobs"),
        (queue.hash, queue.zset, *map(queue.job, ids)),
        (
            b"" if only_reads else digits(round(DEFAULT_RESULT_TTL_SECONDS * 1000)),
            *encode_names(ids),
        ),
        lambda reply: [
            JobRecord(*fields) if fields[0] else fields[1] is not None for fields in reply
        ],
    )


def find_jobs(
    queue: QueueKeys, cursor: bytes, state: JobState | None
) -> Operation[tuple[bytes, list[str]]]:
    """
    Find records of the messages of a queue, among some of the keys of its database.

    Args:
        cursor: b"0" at the start, then what the call before has returned.
        state: the state that is looked for; None is any.

    Returns:
        The next cursor, b"0" at the end, and the ids of the messages.
    """
    pattern = escape_pattern(queue.job("")) + b"*"
    return on_queue(
        queue,
        load("find_jobs"),
        (queue.hash, queue.zset),
        (cursor, pattern, digits(_KEYS_PER_STEP), encode_name(state or "")),
        lambda reply: (reply[0], decode_names(reply[1])),
    )


def cancel_job(
    queue: QueueKeys, id: str, *, is_tracked: bool = True
) -> Operation[CancelResult | JobState | None]:
    """
    Cancel a job.

    Args:
        id: the id of the message.
        is_tracked: False if it is known that no consumer obeys.

    Returns:
        The outcome; RUNNING if a consumer has the message, and none obeys; None if there is
        neither a record nor a message.
    """
    return Operation(
        load("cancel_job"),
        (queue.hash, queue.zset, queue.job(id)),
        (
            digits(round(DEFAULT_RESULT_TTL_SECONDS * 1000)),
            encode_name(id),
            b"1" if is_tracked else b"",
        ),
        _parse_cancel,
        # The second run finds what the first has done.
        RetryClass.ALWAYS,
        (queue.name,),
    )


def _parse_cancel(reply: bytes | None) -> CancelResult | JobState | None:
    if reply is None:
        return None
    state = decode_name(reply)
    if state == JobState.RUNNING:
        return JobState.RUNNING
    return CancelResult.ENDED if state in ENDS - {"cancelled"} else CancelResult(state)
