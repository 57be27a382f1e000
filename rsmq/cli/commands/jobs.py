"""
The commands job, jobs and cancel.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command
from rsmq.cli.app.errors import Exit
from rsmq.cli.app.output import format_facts, format_text, format_time, to_json_value
from rsmq.cli.app.send_options import call_options
from rsmq.errors import JobNotEnded, JobNotFound

if TYPE_CHECKING:
    from rsmq.jobs.status import JobStatus, ReportedProgress
    from rsmq.jobs.threads import JobHandle

_COLUMNS = {
    "id": "id", "state": "state", "attempt": "attempt", "begun": "begun_at", "ended": "ended_at",
    "worker": "worker", "error": "error",
}  # fmt: skip
#: The outcomes of a cancel, for people.
_RESULTS = {
    "cancelled": "cancelled",
    "requested": "it runs, and its worker is to cancel it",
    "ended": "has ended already",
    None: "not there",
}


@command("job QUEUE ID", "rsmq job reports ID", "rsmq job reports ID --wait 5m --json")
@call_options("wait_for_jobs")
def job(call: Call, queue: str, id: str, timeout: float) -> Exit | None:
    """
    Show what has become of a tracked message.

    These are its state, its attempt, its progress, its result or its error, and the job of the task
    that its then has sent. All times are in
    UTC. The exit code is 1 if there is neither such a message nor a record of it, or if it has not
    ended within --wait.
    """
    with call.open() as rsmq:
        handle = rsmq.job(queue, id)
        try:
            if timeout:
                with suppress(JobNotEnded):
                    rsmq.wait_for_jobs([handle], timeout)
            status = handle.status()
        except JobNotFound as error:
            call.out.note(str(error))
            return Exit.NOT_ALL
    call.out.result(_to_json(status), _describe(status))
    return Exit.NOT_ALL if timeout and not status.is_ended else None


@command("jobs QUEUE", "rsmq jobs reports", "rsmq jobs reports --state failed -n 20 --json")
@call_options("jobs")
def jobs(call: Call, queue: str, state: str | None, max_jobs: int) -> None:
    """
    List the tracked messages of a queue.

    Those that were sent last are first. All times are in UTC. It looks at all keys of the database
    in small steps, which takes about a second for a million keys.
    """
    with call.open() as rsmq:
        found = rsmq.jobs(queue, state=state, max_jobs=max_jobs)
        if not found:
            rsmq.get_queue_attributes(queue)  # raises if it does not exist
    call.out.table(found, _COLUMNS, show=_to_json, keep=32)


@command("cancel QUEUE ID...", "rsmq cancel reports ID", "rsmq cancel reports ID ID --json")
def cancel(call: Call, queue: str, ids: tuple[str, ...]) -> Exit | None:
    """
    Cancel jobs: those that wait, and those that run.

    A message that waits is deleted. If a worker with track=True has it, the worker learns of it
    within 2 seconds, and cancels its handler if it can: a plain function in a thread that does not
    look runs to its end, and one with process=True is interrupted. The exit code is 1 if a job has
    ended before, or is not there.
    """
    with call.open() as rsmq:
        results = call.for_each(ids, lambda id: _cancel(rsmq.job(queue, id)), kind="id")
    is_done = all(each["result"] in {"cancelled", "requested"} for each in results)
    return None if is_done else Exit.NOT_ALL


def _cancel(handle: JobHandle[Any]) -> tuple[dict[str, Any], str]:
    result: str | None = None
    with suppress(JobNotFound):
        result = handle.cancel()
    return {"result": result}, _RESULTS[result]


def _to_json(status: JobStatus[Any]) -> dict[str, Any]:
    document: dict[str, Any] = to_json_value(status)
    del document["decode"]
    raw = document.pop("raw_result")
    document["result"] = None if raw is None else json.loads(raw)
    return document


def _describe(status: JobStatus[Any]) -> list[str]:
    facts = {
        "state": f"{status.state}, to be cancelled" if status.is_cancelling else status.state,
        "attempt": status.attempt,
        "worker": None if status.worker is None else format_text(status.worker),
        "begun": status.begun_at and format_time(status.begun_at),
        "ended": status.ended_at and format_time(status.ended_at),
        "progress": None if status.progress is None else _show_progress(status.progress),
        "error": None if status.error is None else format_text(status.error),
        "next": status.following
        and f"{status.following.id} in queue {format_text(status.following.queue)}",
        "result": None if status.raw_result is None else _show_json(status.raw_result.decode()),
    }
    return format_facts(facts)


def _show_progress(progress: ReportedProgress) -> str:
    numbers = f"{progress.done:g}" + (f" of {progress.total:g}" if progress.total else "")
    return f"{numbers}, {format_text(progress.text)}" if progress.text else numbers


def _show_json(text: str) -> str:
    return text if text.isprintable() else json.dumps(json.loads(text))
