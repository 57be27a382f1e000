"""
Calls of tasks at their sends, without Redis; for ``Tasks.immediate``.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from rsmq.codecs import JSON
from rsmq.jobs.status import JobState, JobStatus
from rsmq.tasks.body import NextTask
from rsmq.tasks.follow import EncodeResult, add_result
from rsmq.tasks.signature import Signature
from rsmq.tasks.task import DeclaredTask
from rsmq.worker.run.results import encode_result

T = TypeVar("T")


class Immediate:
    """Calls the functions of tasks, and of those that follow them."""

    def __init__(
        self, tasks: Mapping[str, DeclaredTask[..., Any, Any]], encode_result: EncodeResult
    ) -> None:
        """
        Make it.

        Args:
            tasks: the tasks by their names.
            encode_result: returns a result as the argument of a task.
        """
        self._tasks = tasks
        self._encode_result = encode_result

    def run(self, signature: Signature[T], id: str) -> JobStatus[T]:
        """
        Call a function in this thread; one that is async in an event loop of its own.

        Args:
            signature: the call.
            id: the id of the job.
        """
        begun_at = datetime.now(UTC)
        stored = self._run_body(_through_json(signature.body))
        return _make_status(signature, id, begun_at, stored)

    async def arun(self, signature: Signature[T], id: str) -> JobStatus[T]:
        """Call a function in this event loop; see ``run``."""
        begun_at = datetime.now(UTC)
        stored = await self._arun_body(_through_json(signature.body))
        return _make_status(signature, id, begun_at, stored)

    def send_next(self, following: NextTask, result: Any, stored: Any) -> None:  # noqa: ARG002
        """See ``Follow``."""
        body = add_result(following, result, self._encode_result)
        if body is not None:
            self._run_body(body)

    async def asend_next(self, following: NextTask, result: Any, stored: Any) -> None:  # noqa: ARG002
        """See ``Follow``."""
        body = add_result(following, result, self._encode_result)
        if body is not None:
            await self._arun_body(body)

    def _run_body(self, body: dict[str, Any]) -> Any:
        task = self._tasks[body["task"]]
        stored = task.make_handler(self)(body)
        return _run_in_thread(stored) if task.is_async else stored

    async def _arun_body(self, body: dict[str, Any]) -> Any:
        task = self._tasks[body["task"]]
        stored = task.make_handler(self)(body)
        return await stored if task.is_async else stored


def _through_json(body: dict[str, Any]) -> Any:
    return JSON.decode(JSON.encode(body).encode())


def _make_status(signature: Signature[T], id: str, begun_at: datetime, stored: Any) -> JobStatus[T]:
    task = signature.declared
    return JobStatus(
        signature.queue,
        id,
        JobState.SUCCEEDED,
        attempt=1,
        worker=None,
        begun_at=begun_at,
        ended_at=datetime.now(UTC),
        error=None,
        raw_result=encode_result(stored) if task.is_tracked else None,
        decode=task.decode_result,
    )


def _run_in_thread(coroutine: Any) -> Any:
    """Run a coroutine in a new event loop, also if this thread's is running."""
    results: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(coroutine))
        except BaseException as error:  # noqa: BLE001 - it is raised in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
