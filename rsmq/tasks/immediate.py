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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from rsmq.errors import NotTracked
from rsmq.jobs.status import FollowingJob, JobState, JobStatus, ReportedProgress, keep_status
from rsmq.tasks.body import TASK_CODEC, NextTask
from rsmq.tasks.current_flow import CurrentFlow
from rsmq.tasks.follow import EncodeResult, add_result
from rsmq.tasks.graph import Node
from rsmq.tasks.signature import Signature
from rsmq.tasks.task import DeclaredTask
from rsmq.wire.jobs import ENDS
from rsmq.worker.delivery import Delivery, make_delivery
from rsmq.worker.failure import HandlerFailure
from rsmq.worker.middleware import Hooks, Middleware, MiddlewareOfEachWorker, MiddlewareOfOneWorker
from rsmq.worker.outcome import DeadLetter, Defer, Discard, Retry
from rsmq.worker.run.invoke import message_of_call
from rsmq.worker.run.results import encode_result
from rsmq.worker.stop_event import StopEvent

T = TypeVar("T")


#: The exceptions that say what a worker does with the message.
_REQUESTS = (Retry, Defer, Discard, DeadLetter)
_STATES = ((Retry, JobState.RETRYING), (Defer, JobState.WAITING))
_FAILED = JobState.FAILED


class _ImmediateCall:
    """
    A call, as its ``current_message()`` reads it: a first attempt without losses or cancels.

    It has the attributes of ``DeliveredLease``.

    Attributes:
        result: what the function returned, as it is stored; None if its task is not tracked.
        error: the exception of the function or of a hook; None if there is none.
        state: what has become of it.
        progress: the last one that the function has reported.
        following: the queue and the body of the next task, if there is one.
        next_job: the job of that task, when it has run.
        added: the nodes that it has added to its flow.
    """

    count = attempt = 1
    stopping = StopEvent()  # never set
    is_cancelled = is_over = False
    failure: HandlerFailure | None = None

    def __init__(self, queue: str, id: str, raw: bytes, task: DeclaredTask[..., Any, Any]) -> None:
        self.id, self.raw, self.task, self.queue = id, raw, task, queue
        self.begun_at = datetime.now(UTC)
        self.first_received_ms: int | None = int(self.begun_at.timestamp() * 1000)
        self.requested_at = time.monotonic()
        self.result: bytes | None = None
        self.error: BaseException | None = None
        self.state = JobState.SUCCEEDED
        self.progress: ReportedProgress | None = None
        self.following: tuple[str, bytes] | None = None
        self.next_job: FollowingJob | None = None
        self.added: list[Node] = []

    def fail(self, error: BaseException) -> None:
        """Let it fail, as a hook after the call does."""
        self.error = error

    def report_progress(self, progress: bytes) -> None:
        """Keep a progress for the status of the job."""
        if not self.task.is_tracked:
            raise NotTracked(self.queue, self.id)
        done, total, text = progress.split(b" ", 2)
        self.progress = ReportedProgress(
            json.loads(done), json.loads(total) if total else None, text.decode(errors="replace")
        )

    def note_result(self, result: Any) -> None:
        """Encode the result of a tracked task, as its record has it."""
        if self.task.is_tracked:
            self.result = encode_result(result)

    @contextmanager
    def as_current(self, hooks: Hooks, *, raises: bool) -> Iterator[Delivery]:
        """
        Let ``current_message()`` return its message in the block, and call the hooks after it.

        Args:
            hooks: the middleware.
            raises: whether exceptions are raised that only say what a worker does with the message;
                otherwise they are its state.
        """
        message = make_delivery(self, self.queue, TASK_CODEC)
        token = message_of_call.set(message)
        try:
            try:
                yield message
            except BaseException as error:  # noqa: BLE001 - the hooks see it first
                self.error = error
            seconds = time.monotonic() - self.requested_at
            for after in hooks["after_handle"]:
                hooks.call_method(after, message, self.error, seconds)
            self._end(hooks, message)
            if self.error is not None and (raises or not isinstance(self.error, _REQUESTS)):
                raise self.error
        finally:
            message_of_call.reset(token)

    def _end(self, hooks: Hooks, message: Delivery) -> None:
        """Set the state, and call the hooks for it."""
        error = self.error
        if error is None:
            hooks.call("on_success", message)
            return
        self.state = next((each for kind, each in _STATES if isinstance(error, kind)), _FAILED)
        if not isinstance(error, Retry | Defer | Discard):
            hooks.call("on_failure", error, message, True)
        elif isinstance(error, Retry):
            hooks.call("on_retry", error, message, error.after or 0.0)


class Immediate:
    """
    Calls the functions of tasks, and of those that follow them.

    Attributes:
        hooks: the middleware whose hooks around a call, and for its outcome, are called.
        raises: see ``Tasks.immediate``.
    """

    def __init__(
        self, tasks: Mapping[str, DeclaredTask[..., Any, Any]], encode_result: EncodeResult
    ) -> None:
        """
        Make it.

        Args:
            tasks: the tasks by their names.
            encode_result: returns a result as the argument of a task.
        """
        self.hooks = Hooks(())
        self.raises = False
        self._tasks = tasks
        self._encode_result = encode_result

    def run(self, signature: Signature[T], id: str) -> JobStatus[T]:
        """
        Call a function in this thread; one that is async in an event loop of its own.

        Args:
            signature: the call.
            id: the id of the job.
        """
        return _make_status(self._run_body(signature.queue, id, _encode(signature.body)))

    def run_node(
        self, signature: Signature[Any], flow_id: str, number: int
    ) -> tuple[JobStatus[Any], list[Node]]:
        """Call the function of a node of a flow. Return its job, and the nodes that it adds."""
        body = {**signature.body, "flow": {"id": flow_id, "node": number}}
        call = self._run_body(signature.queue, make_immediate_id(), _encode(body))
        return _make_status(call), [] if call.error else call.added

    async def arun(self, signature: Signature[T], id: str) -> JobStatus[T]:
        """Call a function in this event loop; see ``run``."""
        return _make_status(await self._arun_body(signature.queue, id, _encode(signature.body)))

    def _run_body(self, queue: str, id: str, raw: bytes) -> _ImmediateCall:
        """Call the function of a body, and then those that follow it."""
        call, call_function, is_async = self._prepare(queue, id, raw)
        with call.as_current(self.hooks, raises=self.raises) as message:
            self.hooks.call_before(message)
            result = call_function()
            call.note_result(_run_in_thread(result) if is_async else result)
        if call.following is not None and call.error is None:
            next_queue, next_raw = call.following
            status = _make_status(self._run_body(next_queue, make_immediate_id(), next_raw))
            call.next_job = FollowingJob(status.queue, status.id)
        return call

    async def _arun_body(self, queue: str, id: str, raw: bytes) -> _ImmediateCall:
        call, call_function, is_async = self._prepare(queue, id, raw)
        with call.as_current(self.hooks, raises=self.raises) as message:
            self.hooks.call_before(message)
            result = call_function()
            call.note_result(await result if is_async else result)
        if call.following is not None and call.error is None:
            next_queue, next_raw = call.following
            next_call = await self._arun_body(next_queue, make_immediate_id(), next_raw)
            status = _make_status(next_call)
            call.next_job = FollowingJob(status.queue, status.id)
        return call

    def _prepare(
        self, queue: str, id: str, raw: bytes
    ) -> tuple[_ImmediateCall, Callable[[], Any], bool]:
        """Return a call, what makes it, and whether that is to be awaited."""
        body = TASK_CODEC.decode(raw)
        task = self._tasks[body["task"]]
        call = _ImmediateCall(queue, id, raw, task)
        handler = task.make_handler(_Following(call, self._encode_result))
        return call, partial(handler, body), task.is_async


def make_hooks(middleware: Iterable[Middleware]) -> Hooks:
    """Return the hooks of middleware, but of that which needs a worker, such as a rate limit."""
    needs_worker = MiddlewareOfOneWorker, MiddlewareOfEachWorker
    return Hooks(each for each in middleware if not isinstance(each, needs_worker))


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

    def note_added(self, flow: CurrentFlow) -> None:
        """See ``Follow``."""
        self._call.added = flow.nodes


def make_immediate_id() -> str:
    """Return the id of a job that has no message."""
    return f"immediate-{secrets.token_hex(8)}"


def _make_status(call: _ImmediateCall) -> JobStatus[Any]:
    """Return the status of a call, which ``client.job`` finds too if the task is tracked."""
    error = call.error
    status: JobStatus[Any] = JobStatus(
        call.queue,
        call.id,
        call.state,
        attempt=1,
        worker=None,
        begun_at=call.begun_at,
        ended_at=datetime.now(UTC) if call.state in ENDS else None,
        error=None if error is None else f"{type(error).__name__}: {error}".removesuffix(": "),
        raw_result=call.result,
        progress=call.progress,
        following=call.next_job,
    )
    if call.task.is_tracked:
        keep_status(status)
    return replace(status, decode=call.task.decode_result)


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
