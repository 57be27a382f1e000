"""
The calls of several handlers for one message, one after the other.

A handler that raises does not stop the next ones. After the last one, the failure is raised that
decides the outcome of the message. Each handler has a copy of the call's context variables.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any

from rsmq.worker.run.contexts import InContext, copy_context
from rsmq.worker.run.unrun_result import reject_unrun_result
from rsmq.worker.state.error_reader import read_error
from rsmq.worker.state.jobs import GroupJob

#: Reports that a handler has ended, and that others follow.
ReportProgress = Callable[[GroupJob], object]


def call_handlers(
    job: GroupJob, call: Callable[[str], Any], report: ReportProgress, remedy: str
) -> None:
    """
    Call the handlers of a message that have not finished.

    Args:
        call: calls the handler of a name.
        remedy: advice for a handler that has returned a coroutine.

    Raises:
        The error that decides the outcome.
    """
    for name in _names_to_call(job, report):
        with _HandlerCall(job, name):
            result = copy_context().run(call, name)
            if result is not None:
                reject_unrun_result(result, remedy)
    _raise_failure(job)


async def call_async_handlers(
    job: GroupJob, call: Callable[[str], Awaitable[Any]], report: ReportProgress, remedy: str
) -> None:
    """Call async handlers; see ``call_handlers``."""
    for name in _names_to_call(job, report):
        with _HandlerCall(job, name):
            context = copy_context()
            result = await InContext(context, _await(call, name))
            if result is not None:
                reject_unrun_result(result, remedy)
    _raise_failure(job)


async def _await(call: Callable[[str], Awaitable[Any]], name: str) -> Any:
    return await call(name)


def _names_to_call(job: GroupJob, report: ReportProgress) -> Iterator[str]:
    is_first = True
    for name in job.progress.begin_each(job.lane.listener.handlers.by_type):
        # If the lease is over, another consumer may be calling the same handlers.
        if job.is_over or job.is_timed_out:
            return
        if not is_first:
            report(job)
        is_first = False
        yield name


class _HandlerCall:
    """The call of one handler; its exception is noted."""

    def __init__(self, job: GroupJob, name: str) -> None:
        self._job = job
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> bool:
        progress = self._job.progress
        if error is None or kind is None:
            progress.finish(self._name)
            return True
        if issubclass(kind, asyncio.CancelledError) and _is_task_cancelled():
            return False
        failure = read_error(error, self._job.lane.policy)
        progress.fail(self._name, failure)
        # After these there is no time left for the next handlers.
        return failure.kind not in {"timed_out", "stopped"}


def _is_task_cancelled() -> bool:
    with suppress(RuntimeError):  # no event loop runs in this thread
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return False


def _raise_failure(job: GroupJob) -> None:
    chosen = job.progress.choose_failure()
    if chosen is None:
        return
    name, failure = chosen
    with suppress(Exception):
        BaseException.add_note(failure.error, f"raised by handler {name!r}")
    raise failure.error
