"""
Calls of tasks at their sends, without Redis; for ``Tasks.immediate``.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

from rsmq.errors import NotTracked
from rsmq.jobs.status import JobState, JobStatus, ReportedProgress
from rsmq.tasks.body import TASK_CODEC, NextTask
from rsmq.tasks.follow import EncodeResult, add_result
from rsmq.tasks.signature import Signature
from rsmq.tasks.task import DeclaredTask
from rsmq.worker.delivery import Delivery, make_delivery
from rsmq.worker.run.invoke import message_of_call
from rsmq.worker.run.results import encode_result
from rsmq.worker.state.failure import HandlerFailure

T = TypeVar("T")


class _ImmediateCall:
    """
    A call, as its ``current_message()`` reads it: a first attempt that nobody can lose or cancel.

    It has the attributes of ``DeliveredLease``.

    Attributes:
        stored: what the function returned, as JSON has it.
        progress: the last one that the function has reported.
    """

    count = attempt = 1
    is_cancelled = is_over = False
    error: BaseException | None = None
    failure: HandlerFailure | None = None

    def __init__(self, queue: str, id: str, raw: bytes, *, is_tracked: bool) -> None:
        self.id, self.raw = id, raw
        self.begun_at = datetime.now(UTC)
        self.first_received_ms: int | None = int(self.begun_at.timestamp() * 1000)
        self.requested_at = time.monotonic()
        self.stored: Any = None
        self.progress: ReportedProgress | None = None
        self._queue, self._is_tracked = queue, is_tracked

    def fail(self, error: BaseException) -> None:
        """Do nothing, as with a message that is not in a batch."""

    def report_progress(self, progress: bytes) -> None:
        """Keep a progress for the status of the job."""
        if not self._is_tracked:
            raise NotTracked(self._queue, self.id)
        done, total, text = progress.split(b" ", 2)
        self.progress = ReportedProgress(
            json.loads(done), json.loads(total) if total else None, text.decode(errors="replace")
        )

    @contextmanager
    def as_current(self) -> Iterator[None]:
        """Let ``current_message()`` return its message in the block."""
        message = make_delivery(self, self._queue, TASK_CODEC, Delivery)
        token = message_of_call.set(message)
        try:
            yield
        finally:
            message_of_call.reset(token)


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
        return _make_status(signature, self._run_body(signature.queue, id, signature.body))

    async def arun(self, signature: Signature[T], id: str) -> JobStatus[T]:
        """Call a function in this event loop; see ``run``."""
        return _make_status(signature, await self._arun_body(signature.queue, id, signature.body))

    def send_next(self, following: NextTask, result: Any, stored: Any) -> None:  # noqa: ARG002
        """See ``Follow``."""
        body = add_result(following, result, self._encode_result)
        if body is not None:
            self._run_body(following.queue, make_immediate_id(), body)

    async def asend_next(self, following: NextTask, result: Any, stored: Any) -> None:  # noqa: ARG002
        """See ``Follow``."""
        body = add_result(following, result, self._encode_result)
        if body is not None:
            await self._arun_body(following.queue, make_immediate_id(), body)

    def _run_body(self, queue: str, id: str, body: dict[str, Any]) -> _ImmediateCall:
        task = self._tasks[body["task"]]
        call = _ImmediateCall(
            queue, id, TASK_CODEC.encode(body).encode(), is_tracked=task.is_tracked
        )
        with call.as_current():
            stored = task.make_handler(self)(TASK_CODEC.decode(call.raw))
            call.stored = _run_in_thread(stored) if task.is_async else stored
        return call

    async def _arun_body(self, queue: str, id: str, body: dict[str, Any]) -> _ImmediateCall:
        task = self._tasks[body["task"]]
        call = _ImmediateCall(
            queue, id, TASK_CODEC.encode(body).encode(), is_tracked=task.is_tracked
        )
        with call.as_current():
            stored = task.make_handler(self)(TASK_CODEC.decode(call.raw))
            call.stored = await stored if task.is_async else stored
        return call


def make_immediate_id() -> str:
    """Return the id of a job that has no message."""
    return f"immediate-{secrets.token_hex(8)}"


def _make_status(signature: Signature[T], call: _ImmediateCall) -> JobStatus[T]:
    task = signature.declared
    return JobStatus(
        signature.queue,
        call.id,
        JobState.SUCCEEDED,
        attempt=1,
        worker=None,
        begun_at=call.begun_at,
        ended_at=datetime.now(UTC),
        error=None,
        raw_result=encode_result(call.stored) if task.is_tracked else None,
        decode=task.decode_result,
        progress=call.progress,
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

    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,))
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
