"""
The results of tasks: Django's ``TaskResult``, from the record of a tracked message.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from traceback import format_exception
from typing import Any

from django.conf import settings
from django.utils import timezone

from rsmq.django.operations import AttemptLog, TaskRecord
from rsmq.django.task_call import DjangoCall
from rsmq.django.task_interface import TaskError, TaskResult, TaskResultStatus
from rsmq.jobs.status import JobState
from rsmq.wire.ids import NODE_ID_LENGTH, parse_sent_us

MAX_ERRORS = 10
_MAX_TRACEBACK_CHARACTERS = 8192

_STATUSES = {
    JobState.WAITING: TaskResultStatus.READY,
    JobState.RETRYING: TaskResultStatus.READY,
    JobState.RUNNING: TaskResultStatus.RUNNING,
    JobState.SUCCEEDED: TaskResultStatus.SUCCESSFUL,
}
#: The errors of tasks that ended without an exception of their functions.
_END_ERRORS = {
    JobState.FAILED: "rsmq.errors.JobFailed",
    JobState.CANCELLED: "rsmq.errors.JobCancelled",
    JobState.EXPIRED: "rsmq.errors.JobExpired",
}


def make_result(
    task: Any, call: DjangoCall, id: str, status: TaskResultStatus, log: AttemptLog | None = None
) -> Any:
    """
    Return the result of a task that has not ended.

    Args:
        id: the id of its message; or empty.
        log: its attempts; None before the first.
    """
    return TaskResult(
        task=task,
        id=id,
        status=status,
        enqueued_at=sent_at(id),
        started_at=None if log is None else _to_time(log.first_begun),
        last_attempted_at=None if log is None else _to_time(log.begun),
        finished_at=None,
        args=call.args,
        kwargs=call.kwargs,
        backend=task.backend,
        errors=[] if log is None else [_to_error(line) for line in log.errors],
        worker_ids=[] if log is None else list(log.workers),
    )


def read_result(task: Any, call: DjangoCall, id: str, record: TaskRecord) -> Any:
    """Return the result of a task as its record says it; see ``make_result``."""
    state = JobState(record.state)
    result = make_result(
        task, call, id, _STATUSES.get(state, TaskResultStatus.FAILED), record.attempts
    )
    change(result, finished_at=_to_time(record.ended))
    if state is JobState.SUCCEEDED:
        change(result, _return_value=json.loads(record.result or b"null"))
    last = record.attempts.errors[-1:]
    if state in _END_ERRORS and not (
        state is JobState.FAILED and last and last[0].startswith(f"{record.receives} ")
    ):
        text = record.error if state is JobState.FAILED else f"the task is {state.value}"
        result.errors.append(TaskError(exception_class_path=_END_ERRORS[state], traceback=text))
    return result


def change(result: Any, **fields: Any) -> None:
    """Set fields of a result, which is frozen for its users; Django's own backends do the same."""
    for name, value in fields.items():
        object.__setattr__(result, name, value)


def sent_at(id: str) -> datetime | None:
    """Return when a message was sent, according to its id, as Django represents times."""
    us = parse_sent_us(id[:NODE_ID_LENGTH]) if id else None
    return None if us is None else _to_time(us / 1000)


def encode_error(count: int, error: BaseException) -> str:
    """Return an error for the record of a task, one line; ``count`` is the receive count."""
    kind = type(error)
    text = "".join(format_exception(error))[-_MAX_TRACEBACK_CHARACTERS:]
    fields = {"class": f"{kind.__module__}.{kind.__qualname__}", "traceback": text}
    return f"{count} {json.dumps(fields)}"


def add_error(result: Any, log: AttemptLog, count: int, error: BaseException) -> tuple[str, ...]:
    """Add an error to a result, and return the last errors for the record."""
    line = encode_error(count, error)
    result.errors.append(_to_error(line))
    return (*_without(log.errors, count), line)[-MAX_ERRORS:]


def _without(lines: Iterable[str], count: int) -> list[str]:
    return [line for line in lines if not line.startswith(f"{count} ")]


def _to_error(line: str) -> Any:
    fields = json.loads(line.partition(" ")[2])
    return TaskError(exception_class_path=fields["class"], traceback=fields["traceback"])


def _to_time(ms: float | None) -> datetime | None:
    if ms is None:
        return None
    time = datetime.fromtimestamp(ms / 1000, UTC)
    return time if settings.USE_TZ else timezone.make_naive(time)
