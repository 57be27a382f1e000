# Generated from rsmq/jobs/asyncio_.py by scripts/generate-sync. Do not edit.
"""
``queues.job`` of the synchronous clients.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from rsmq.codecs.type_variables import R_co
from rsmq.errors import InvalidFormat, JobNotFound, JobNotTracked, show
from rsmq.jobs.base_handle import BlocksForResult
from rsmq.jobs.before_wait import check_wait
from rsmq.jobs.operations import MAX_READ, cancel_job, find_jobs, read_jobs
from rsmq.jobs.status import (
    CancelResult,
    FollowingJob,
    JobState,
    JobStatus,
    ReportedProgress,
    find_following,
    find_status,
    lost_job,
    return_unchanged,
)
from rsmq.operations.operation import Operation
from rsmq.transport.clock import now
from rsmq.wire.ids import check_id
from rsmq.wire.jobs import MIN_RESULT_TTL_SECONDS
from rsmq.wire.keys import QueueKeys
from rsmq.wire.limits import check_duration, check_whole_number

T = TypeVar("T")
U = TypeVar("U")

#: Maximum number of jobs that a list has.
MAX_JOBS = 10_000
#: While several jobs are awaited, all are read at least as often.
_MAX_SECONDS_BETWEEN_READS = 30.0


class JobHandle(BlocksForResult[R_co]):
    """
    A tracked message, by its queue and its id.

    The message was sent with ``track=True``, or its listener has ``track=True``: such a listener
    makes a record of every message that it handles, whichever client has sent it.

    Attributes:
        queue: the name of its queue.
        id: its id.
        client: the client that reaches it, for extensions.
        keys: the keys of its queue, for extensions.
        only_reads: whether reads leave its record as it is.
        decode: converts the JSON of the result, as for ``JobStatus``.
        is_tracked: False if it is known to have no record.
        ended: its status if it was called without a message, as in ``Tasks.immediate``; else None.
        follow: returns the handle on the job that follows it; None makes one without its types.
    """

    def __init__(
        self,
        client: Any,
        qname: str,
        id: str,
        *,
        decode: Callable[[Any], R_co] = return_unchanged,
        is_tracked: bool = True,
        ended: JobStatus[R_co] | None = None,
        only_reads: bool = False,
        follow: Callable[[FollowingJob], JobHandle[Any]] | None = None,
    ) -> None:
        """
        Make it; nothing is read. The clients and ``Tasks`` call this.

        Raises:
            MissingParameter: the name or the id is None or empty.
            InvalidFormat: the name or the id has other characters.
        """
        self.client = client
        self.queue = qname
        self.keys: QueueKeys = client.namespace.queue(qname)
        self.id: str = check_id(id)
        self.only_reads = only_reads
        self.decode = decode
        self.is_tracked = is_tracked
        self.follow = follow
        kept = find_status(qname, id)
        self.ended: JobStatus[R_co] | None = ended or (kept and replace(kept, decode=decode))

    def status(self) -> JobStatus[R_co]:
        """
        Return what has become of it.

        One atomic script, which compares the record with the message. If the message has left the
        queue without an outcome, it also ends the record.

        Raises:
            JobNotFound: there is neither a message nor a record of this id: the time to live of the
                record has ended, or there never was one.
            JobNotTracked: the same, of a task without ``track=True``.
        """
        [status] = _read([self])
        return status

    def result(
        self,
        timeout: float | None = None,
    ) -> R_co:
        """
        Wait until it has ended, and return what its handler returned.

        It waits as a receive does: on the connection of the client that all its waiting calls
        share, and without asking Redis again and again. Errors of the connection are raised when
        ``retry_deadline`` has passed; then it may be called again. If a client in another language
        deletes the message, this is found within 30 seconds.

        Args:
            timeout: seconds, from 0; None waits forever.

        Returns:
            A value of JSON; for a task a value of the type that its function returns.

        Raises:
            JobNotEnded: it has not ended within the timeout. It is a TimeoutError too.
            JobFailed: its handler has failed for the last time; ``error`` says how.
            JobCancelled: it was cancelled.
            JobExpired: its message is gone, and no outcome is known; or the time to live of its
                record ended while this could not read it.
            JobNotFound: as for ``status``.
            JobNotTracked: it is of a task without ``track=True``, so its result is not stored.
            InvalidValue: timeout is out of range.
        """
        [status] = wait_for_jobs([self], timeout)
        return status.result()

    def following(
        self,
        timeout: float | None = None,
    ) -> JobHandle[Any]:
        """
        Wait until it has succeeded, and return the job of the task that its ``then`` has sent.

        That job may be waiting, and may have a following one, so the end of a chain is awaited by
        ``following`` of each step and ``result`` of the last one.

        Args:
            timeout: seconds, from 0; None waits forever.

        Raises:
            NotPossible: no task has followed it.
            The errors of ``result``.
        """
        place = find_following(wait_for_jobs([self], timeout))
        if self.follow is not None:
            return self.follow(place)
        return JobHandle(self.client, place.queue, place.id, only_reads=self.only_reads)

    def progress(self) -> ReportedProgress | None:
        """
        Return the last progress that its handler has reported in this attempt; None without one.

        It is ``progress`` of ``status``, for programs that need nothing else.

        Raises:
            JobNotFound, JobNotTracked: as for ``status``.
        """
        return (self.status()).progress

    def cancel(self) -> CancelResult:
        """
        Cancel it: its message is deleted, and no handler is called for it any more.

        One atomic script. A job that waits, also for a retry or the end of a delay, is cancelled at
        once, whether it is tracked or not. If a consumer has the message, this returns without
        waiting for it. A worker with ``track=True`` learns of it within a third of the visibility
        timeout, and within 2 seconds at most:

        - An async handler is cancelled, as by ``task.cancel()``.
        - A handler in a thread finds ``message.cancelled``, and may raise any exception. One that
          does not look runs to its end: a thread can't be cancelled. Use ``process=True``.
        - A handler in a child process is interrupted by HandlerCancelled, and its process is
          killed if it has not ended 5 seconds later.

        The job is cancelled then, without a retry or a dead letter. If the handler returns in spite
        of it, the job has succeeded. If its worker dies, no tracking worker handles the message
        again. Clients in other languages and listeners without tracking learn nothing: they handle
        the message to its end.

        Returns:
            The outcome: cancelled, requested, or ended if it had ended before; also ended if the
            message of a task without ``track=True`` is gone, whose outcome is not stored. A
            repeated call returns what is true by then, and changes nothing else.

        Raises:
            JobNotFound: there is neither a message nor a record of this id.
            JobNotTracked: it is of a task without ``track=True``, and a consumer has the message:
                no worker would obey. Nothing is changed.
        """
        if self.ended is not None:
            return CancelResult.ENDED
        result: CancelResult | JobState | None = self.client.run(
            cancel_job(self.keys, self.id, is_tracked=self.is_tracked)
        )
        if isinstance(result, JobState):
            raise JobNotTracked(self.queue, self.id, "no worker cancels it while it runs")
        if result is None and not self.is_tracked:
            return CancelResult.ENDED  # it was sent, and its message is gone
        if result is None:
            raise JobNotFound(self.queue, self.id)
        return result

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.queue!r}, {self.id!r})"


class MapJobs(list[JobHandle[T]], Generic[T, U]):
    """The jobs of ``Tasks.map``, in the order of its items."""

    def __init__(
        self,
        jobs: Iterable[JobHandle[T]],
        follow: Callable[[FollowingJob], JobHandle[U]],
        last: JobHandle[U] | None = None,
    ) -> None:
        """
        Make it; ``Tasks`` calls this.

        Args:
            jobs: the jobs.
            follow: returns the handle on the job after them.
            last: that handle, if the job was sent already.
        """
        super().__init__(jobs)
        self._follow, self._last = follow, last

    def following(
        self,
        timeout: float | None = None,
    ) -> JobHandle[U]:
        """
        Wait until all have succeeded, and return the job of the task that was sent after them.

        It reads them as ``wait_for_jobs`` does. Once all have ended, one that has failed is an
        error, though ``then`` is still sent after a redrive.

        Args:
            timeout: seconds, from 0; None waits forever.

        Raises:
            JobNotTracked: the task of the items has no ``track=True``.
            NotPossible: no task has followed them.
            The errors of ``result`` of a job, of the first one that has not succeeded.
        """
        if self._last is not None:
            return self._last
        return self._follow(find_following(wait_for_jobs(self, timeout)))


def _read(jobs: Sequence[JobHandle[T]]) -> list[JobStatus[T]]:
    """
    Return the status of each job.

    Raises:
        JobNotFound, JobNotTracked: there is neither a message nor a record of one of them.
    """
    found, has_queue = _find(jobs)
    for at, job in enumerate(jobs):
        if at not in found:
            if not job.is_tracked:
                raise JobNotTracked(job.queue, job.id)
            raise JobNotFound(job.queue, job.id, has_queue=has_queue[at])
    return [found[at] for at in range(len(jobs))]


def _find(
    jobs: Sequence[JobHandle[T]],
) -> tuple[dict[int, JobStatus[T]], dict[int, bool]]:
    """
    Return the status of each job that has a message or a record, by its place.

    The second result says for each other job whether its queue exists.

    One script for each queue, and for each MAX_READ of its jobs.
    """
    by_queue: dict[tuple[object, ...], list[int]] = {}
    found: dict[int, JobStatus[T]] = {}
    has_queue: dict[int, bool] = {}
    for at, job in enumerate(jobs):
        if job.ended is not None:
            found[at] = job.ended
        else:
            by_queue.setdefault((_queue_of(job), job.only_reads), []).append(at)
    for places in by_queue.values():
        first = jobs[places[0]]
        for begin in range(0, len(places), MAX_READ):
            step = places[begin : begin + MAX_READ]
            ids = [jobs[at].id for at in step]
            reading = read_jobs(first.keys, ids, only_reads=first.only_reads)
            records = first.client.run(reading)
            for at, record in zip(step, records, strict=True):
                job = jobs[at]
                if isinstance(record, bool):
                    has_queue[at] = record
                else:
                    found[at] = record.to_status(job.queue, job.id, job.decode)
    return found, has_queue


def _queue_of(job: JobHandle[Any]) -> tuple[object, ...]:
    """Return the same value for all jobs of a queue."""
    return job.client, job.keys


def _wait_for_end(job: JobHandle[T], seconds: float | None) -> JobStatus[T] | None:
    """Wait until a job has ended, and return its status; None if it has not ended in time."""

    def ended() -> JobStatus[T] | None:
        [status] = _read_again([job])
        return status if status.is_ended else None

    status: JobStatus[T] | None = job.client.watcher.wait(
        ended, lambda _ended: None, None, (job.keys.job(job.id),), seconds
    )
    return status


def _read_again(jobs: Sequence[JobHandle[T]]) -> list[JobStatus[T]]:
    """
    Return the status of each job, of which there has been a message or a record.

    A record whose time to live has ended unseen is that of a job with an unknown outcome.
    """
    found, _ = _find(jobs)
    return [found.get(at) or lost_job(job.queue, job.id) for at, job in enumerate(jobs)]


def _note_ttl(shortest: dict[object, float], job: JobHandle[T], status: JobStatus[T]) -> None:
    """Note the shortest time that an ended record of each queue lives."""
    ttl = status.result_ttl
    if ttl is not None:
        shortest[_queue_of(job)] = min(ttl, shortest.get(_queue_of(job), ttl))


def _seconds_between_reads(
    queues: Iterable[object], shortest: Mapping[object, float], *, waited: float, took: float
) -> float:
    """
    Return after how long to read the jobs that have not ended, so that none is gone by then.

    Args:
        queues: those of the jobs.
        shortest: for queues of which a job has ended how long its record lives, seconds.
        waited: for how long the jobs have been waited for. Until a job of a queue has ended, each
            pause is as long as all before it: jobs that end late rarely have short lives.
        took: how long the last read took.
    """
    unknown = max(waited, MIN_RESULT_TTL_SECONDS / 4)
    pause = min(shortest[each] / 4 if each in shortest else unknown for each in queues)
    return max(min(pause, _MAX_SECONDS_BETWEEN_READS), 20 * took)


def wait_for_jobs(
    jobs: Iterable[JobHandle[T]],
    timeout: float | None,
) -> list[JobStatus[T]]:
    """See ``RSMQ.wait_for_jobs``."""
    handles = list(jobs)
    for each in handles:
        if not each.is_tracked:
            raise JobNotTracked(each.queue, each.id)
    seconds = None if timeout is None else check_duration("timeout", timeout)
    until = None if seconds is None else now() + seconds
    ended: dict[int, JobStatus[T]] = {}
    pending = list(range(len(handles)))
    shortest: dict[object, float] = {}
    began = started = now()
    statuses = _read(handles)
    while True:
        took = now() - started
        latest = dict(zip(pending, statuses, strict=True))
        for at, status in latest.items():
            if status.is_ended or handles[at].ended is not None:
                ended[at] = status
            _note_ttl(shortest, handles[at], status)
        pending = [at for at in pending if at not in ended]
        if not pending:
            return [ended[at] for at in range(len(handles))]
        check_wait({handles[at].queue for at in pending})
        # Jobs end in about the order of their sends: when the last one has ended, most have.
        last = handles[pending[-1]]
        left = None if until is None else max(until - now(), 0.0)
        if left == 0:
            raise latest[pending[-1]].not_ended(seconds or 0)
        if len(pending) > 1:
            queues = {_queue_of(handles[at]) for at in pending}
            pause = _seconds_between_reads(queues, shortest, waited=now() - began, took=took)
            left = pause if left is None else min(left, pause)
        if (end := _wait_for_end(last, left)) is not None:
            ended[pending.pop()] = end
        started = now()
        statuses = _read_again([handles[at] for at in pending])


def _run(client: Any, step: Operation[T]) -> T:
    result: T = client.run(step)
    return result


def list_jobs(
    client: Any,
    qname: str,
    state: JobState | str | None,
    max_jobs: int,
    run: Callable[[Any, Operation[Any]], Any] = _run,
) -> list[JobStatus[Any]]:
    """See ``RSMQ.jobs``; ``run`` runs each step of the walk through all keys."""
    wanted = None if state is None else _check_state(state)
    check_whole_number("max_jobs", max_jobs, 1, MAX_JOBS)
    newest: list[str] = []  # ids begin with the time of the send
    keys, cursor = client.namespace.queue(qname), None
    while cursor != b"0":
        cursor, ids = run(client, find_jobs(keys, cursor or b"0", wanted))
        if ids:
            newest = heapq.nlargest(max_jobs, {*newest, *ids})
    jobs = [JobHandle[Any](client, qname, id, only_reads=True) for id in newest]
    found, _ = _find(jobs)
    statuses = [found[at] for at in sorted(found)]
    return [status for status in statuses if wanted in {None, status.state}]


def _check_state(state: object) -> JobState:
    """
    Return a state.

    Raises:
        InvalidFormat: it is not one.
    """
    try:
        return JobState(state)  # type: ignore[arg-type]
    except ValueError:
        hint = f"The states are {', '.join(JobState)}."
        raise InvalidFormat("state", value=show(state), hint=hint) from None
