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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from rsmq.errors import NotTracked
from rsmq.jobs.status import JobState, JobStatus, ReportedProgress
from rsmq.tasks.body import TASK_CODEC, NextTask
from rsmq.tasks.follow import EncodeResult, add_result
from rsmq.tasks.signature import Signature
from rsmq.tasks.task import DeclaredTask
from rsmq.wire.jobs import ENDS
from rsmq.worker.delivery import make_delivery
from rsmq.worker.failure import HandlerFailure
from rsmq.worker.outcome import Defer, Discard, Retry
from rsmq.worker.run.invoke import message_of_call
from rsmq.worker.run.results import encode_result

T = TypeVar("T")


#: The state of a job after each exception that says what a worker does with the message.
_STATES: dict[type[BaseException], JobState] = {
    Retry: JobState.RETRYING,
    Defer: JobState.WAITING,
    Discard: JobState.FAILED,
}


class _ImmediateCall:
    """
    A call, as its ``current_message()`` reads it: a first attempt that nobody can lose or cancel.

    It has the attributes of ``DeliveredLease``.

    Attributes:
        stored: what the function returned, as JSON has it.
        state: what has become of it.
        progress: the last one that the function has reported.
        text: why it has not returned a result; None if it has.
        following: the queue and the body of the next task, if there is one.
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
        self.state = JobState.SUCCEEDED
        self.text: str | None = None
        self.progress: ReportedProgress | None = None
        self.following: tuple[str, bytes] | None = None
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
        """
        Let ``current_message()`` return its message in the block.

        Exceptions that only say what a worker does with the message are its state.
        """
        message = make_delivery(self, self._queue, TASK_CODEC)
        token = message_of_call.set(message)
        try:
            yield
        except tuple(_STATES) as error:
            self.state = next(state for kind, state in _STATES.items() if isinstance(error, kind))
            self.text = f"{type(error).__name__}: {error}".removesuffix(": ")
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
        return _make_status(signature, self._run_body(signature.queue, id, _encode(signature.body)))

    async def arun(self, signature: Signature[T], id: str) -> JobStatus[T]:
        """Call a function in this event loop; see ``run``."""
        call = await self._arun_body(signature.queue, id, _encode(signature.body))
        return _make_status(signature, call)

    def _run_body(self, queue: str, id: str, raw: bytes) -> _ImmediateCall:
        """Call the function of a body, and then those that follow it."""
        call, call_function, is_async = self._prepare(queue, id, raw)
        with call.as_current():
            stored = call_function()
            call.stored = _run_in_thread(stored) if is_async else stored
        if call.following is not None:
            next_queue, next_raw = call.following
            self._run_body(next_queue, make_immediate_id(), next_raw)
        return call

    async def _arun_body(self, queue: str, id: str, raw: bytes) -> _ImmediateCall:
        call, call_function, is_async = self._prepare(queue, id, raw)
        with call.as_current():
            stored = call_function()
            call.stored = await stored if is_async else stored
        if call.following is not None:
            next_queue, next_raw = call.following
            await self._arun_body(next_queue, make_immediate_id(), next_raw)
        return call

    def _prepare(
        self, queue: str, id: str, raw: bytes
    ) -> tuple[_ImmediateCall, Callable[[], Any], bool]:
        """Return a call, what makes it, and whether that is to be awaited."""
        body = TASK_CODEC.decode(raw)
        task = self._tasks[body["task"]]
        call = _ImmediateCall(queue, id, raw, is_tracked=task.is_tracked)
        handler = task.make_handler(_Following(call, self._encode_result))
        return call, partial(handler, body), task.is_async


def _encode(body: dict[str, Any]) -> bytes:
    return TASK_CODEC.encode(body).encode()


class _Following:
    """Notes in a call what follows it."""

    def __init__(self, call: _ImmediateCall, encode_result: EncodeResult) -> None:
        self._call = call
        self._encode_result = encode_result

    def check_queue(self, queue: str) -> None:
        """See ``Follow``."""

    def note_next(self, following: NextTask, result: Any) -> None:
        """See ``Follow``."""
        body = add_result(following, result, self._encode_result)
        if body is not None:
            self._call.following = following.queue, _encode(body)


def make_immediate_id() -> str:
    """Return the id of a job that has no message."""
    return f"immediate-{secrets.token_hex(8)}"


def _make_status(signature: Signature[T], call: _ImmediateCall) -> JobStatus[T]:
    task = signature.declared
    has_result = call.state is JobState.SUCCEEDED and task.is_tracked
    return JobStatus(
        signature.queue,
        call.id,
        call.state,
        attempt=1,
        worker=None,
        begun_at=call.begun_at,
        ended_at=datetime.now(UTC) if call.state in ENDS else None,
        error=call.text,
        raw_result=encode_result(call.stored) if has_result else None,
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
