"""
Operations on jobs: what has become of tracked messages.
"""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from rsmq.errors import ClientClosed, JobNotEnded
from rsmq.jobs.asyncio_ import AsyncJobHandle, list_jobs
from rsmq.jobs.status import JobStatus
from rsmq.search.redaction import MARK
from rsmq.web.fields import Field, Shape
from rsmq.web.routes.forms import QUEUE, check_number, may, show_as
from rsmq.web.routes.receives import while_admitted
from rsmq.web.search import run_paced
from rsmq.web.send_fields import list_arguments
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope


class ProgressJson(TypedDict):
    """The progress that a handler has reported."""

    done: Annotated[float, "How much is done."]
    total: Annotated[float | None, "How much there is to do."]
    text: Annotated[str, "What it does; may be empty."]


class FollowingJson(TypedDict):
    """The job of a task that followed another one."""

    queue: Annotated[str, "Its queue."]
    id: Annotated[str, "Its id."]


class JobJson(TypedDict):
    """The state of a tracked message."""

    queue: Annotated[str, "Its queue."]
    id: Annotated[str, "The id of the message."]
    state: Annotated[str, "waiting, running, retrying, succeeded, failed, cancelled or expired."]
    is_ended: Annotated[bool, "Whether it changes no more."]
    attempt: Annotated[int, "The number of the last attempt."]
    worker: Annotated[str | None, "The worker of that attempt."]
    begun_at: Annotated[str | None, "When that attempt began.", Shape.TIME]
    ended_at: Annotated[
        str | None,
        "When the job ended; null for one that has expired and of which that is not stored.",
        Shape.TIME,
    ]
    error: Annotated[str | None, "Type and text of the last failure."]
    progress: Annotated[ProgressJson | None, "What its handler has reported."]
    is_cancelling: Annotated[bool, "Whether its consumer is to cancel it."]
    following: Annotated[
        FollowingJson | None,
        "The job of the task that its then has sent; null if none was, or the caller has no right "
        "to its queue.",
    ]
    result: Annotated[Any, "What its handler returned."]


class JobsJson(TypedDict):
    """The jobs of a queue."""

    jobs: Annotated[list[JobJson], "As of a single job."]


def _show(status: JobStatus[Any], call: ApiCall) -> JobJson:
    redaction, following = call.redaction, status.following
    if following is not None and not may(call, Scope.PEEK, following.queue):
        following = None
    progress = status.progress and show_as(ProgressJson, status.progress)
    if progress and redaction and progress["text"]:
        progress["text"] = MARK  # which may quote the body
    return show_as(
        JobJson, status, progress=progress,
        following=following and show_as(FollowingJson, following),
        error=redaction.failure(status.error), result=redaction.result(status.raw_result),
    )  # fmt: skip


async def _get(call: ApiCall) -> ApiAnswer[JobJson]:
    # A read of an operator does not end the record of a job that has expired.
    job = AsyncJobHandle[Any](call.queues, call.names[QUEUE], call.names["id"], only_reads=True)
    wait = check_number(_WAIT, call)
    if wait:
        waiting: Any = call.queues.wait_for_jobs([job], wait)
        try:
            [status] = await while_admitted(call, waiting, _forget)
            return ApiAnswer(_show(status, call))
        except (JobNotEnded, ClientClosed):  # the second one if the server stops
            pass
    return ApiAnswer(_show(await job.status(), call))


async def _forget(_: object) -> None:
    """A job is read again by the next call."""


async def _list(call: ApiCall) -> ApiAnswer[JobsJson]:
    state, limit = (each.read(call.values) for each in _LIST)
    # It looks at all keys of the database, so its steps are paced with those of searches.
    found = await list_jobs(call.queues, call.names[QUEUE], state, limit, run_paced)
    if not found:
        await call.queues.get_queue_attributes(call.names[QUEUE])  # raises without a queue
    return ApiAnswer({"jobs": [_show(each, call) for each in found]})


async def _cancel(call: ApiCall) -> ApiAnswer:
    result = await call.queues.job(call.names[QUEUE], call.names["id"]).cancel()
    return ApiAnswer({"result": result.value})


_LIST = list_arguments("jobs")
(_WAIT,) = list_arguments("wait_for_jobs")

ROUTES = (
    Route(
        "GET", "/queues/{queue}/jobs", Scope.PEEK,
        "List the jobs of a queue that have a record, the last first; for operators.", _list,
        ("jobs",),
        query=_LIST, result=JobsJson,
    ),
    Route(
        "GET", "/queues/{queue}/jobs/{id}", Scope.PEEK,
        "Read what has become of a message, and wait for its result.", _get,
        ("job", "wait_for_jobs"), query=(_WAIT,),
        result=JobJson,
    ),
    Route(
        "POST", "/queues/{queue}/jobs/{id}:cancel", Scope.MANAGE,
        "Cancel a job that waits, or ask its consumer to.", _cancel, ("job",),
        result=(Field("result", Shape.TEXT, "cancelled, requested or ended. After "
        "requested, a plain handler in a thread that does not look runs to its end."),),
    ),
)  # fmt: skip
