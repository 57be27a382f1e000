"""
One call of a handler, in a thread or a task.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from rsmq.errors import BodyNotDecodable
from rsmq.worker.children.forked_copy import OwnProcess
from rsmq.worker.delivery import Delivery
from rsmq.worker.middleware import Hooks
from rsmq.worker.outcome import Defer, HandlerTimedOut
from rsmq.worker.state.error_reader import read_error
from rsmq.worker.state.failure import HandlerFailure
from rsmq.worker.state.jobs import SingleJob
from rsmq.worker.state.lane import Job, Lease
from rsmq.worker.state.message_state import RUNNING

#: A message whose task the program has cancelled is deferred if fewer of its receives were no
#: attempts. More cancellations may be the work of its handler, and count.
_MAX_CANCELLATIONS = 2

#: The call that this thread or task runs; for the log records of handlers.
current_job: ContextVar[Job | None] = ContextVar("rsmq_job", default=None)


def current_message() -> Delivery | None:
    """
    Return the message that this thread or task handles; None outside a handler, and for a batch.
    """
    job = current_job.get()
    if job is None or job.lane.listener.batch:
        return None
    return job.leases[0].to_delivery(job.lane.name, job.lane.codec)


class Invoker:
    """Calls handlers, and records how the calls end."""

    def __init__(
        self,
        hooks: Hooks,
        report_finished: Callable[[Job], object],
        call_in_child: Callable[[Job], object] | None = None,
    ) -> None:
        """
        Make one.

        Args:
            hooks: the worker's middleware.
            report_finished: called with each call that ended.
            call_in_child: makes the calls of listeners with ``process=True``; None in a child
                process, which makes all calls itself.
        """
        self._call_in_child = call_in_child
        self._before = hooks["before_handle"]
        self._hooks = hooks
        self._has_handler_hooks = bool(self._before or hooks["after_handle"])
        self._report_finished = report_finished
        self._own_process = OwnProcess()

    def call(self, job: Job) -> None:
        """Call a plain function."""
        current_job.set(job)
        deliveries: list[Delivery] = []
        try:
            call = self._prepare(job, deliveries)
            if call is not None:
                handler, args = call
                result = handler(*args)
                if result is not None:
                    _reject_unrun_result(
                        result, "declare it with async def, also where it is decorated"
                    )
        except BaseException as error:  # noqa: BLE001 - the settler decides the outcome
            job.failure = read_error(error, job.lane.policy)
        self._finish(job, deliveries)

    async def call_async(self, job: Job) -> None:
        """Await an async function."""
        current_job.set(job)
        deliveries: list[Delivery] = []
        try:
            call = self._prepare(job, deliveries)
            if call is not None:
                handler, args = call
                result = await handler(*args)
                if result is not None:
                    _reject_unrun_result(result, "await it in the handler")
            if job.is_timed_out:  # the handler has caught its cancellation
                job.failure = read_error(_make_timeout(job, None), job.lane.policy)
        except BaseException as error:  # noqa: BLE001 - as above
            failure = error
            if job.is_timed_out:
                failure = _make_timeout(job, error)
            elif (
                issubclass(type(error), asyncio.CancelledError)
                and is_cancelled_by_program(asyncio.current_task(), job)
                and all(lease.unbegun < _MAX_CANCELLATIONS for lease in job.leases)
            ):
                failure = Defer("the program has cancelled its task")
            job.failure = read_error(failure, job.lane.policy)
        self._finish(job, deliveries)

    def _prepare(self, job: Job, deliveries: list[Delivery]) -> tuple[Any, tuple[Any, ...]] | None:
        """Return the handler and its arguments; None if there is nothing to handle."""
        lane = job.lane
        if lane.listener.process and self._call_in_child is not None:
            return self._prepare_for_child(job, deliveries)
        if lane.listener.batch is not None:
            return self._prepare_batch(job, deliveries)
        lease: Lease = job if job.__class__ is SingleJob else job.leases[0]
        if lease.state is not RUNNING:
            return None
        try:
            body = lane.codec.decode(lease.raw)
        except HandlerTimedOut:  # in a child process, during a slow decoding
            raise
        except BaseException as error:
            raise BodyNotDecodable(lane.name, lease.shown_id, lease.raw) from error
        handler, takes_message, body = lane.listener.handlers.find(body)
        if not takes_message and not self._has_handler_hooks:
            return handler, (body,)
        message = lease.to_delivery(lane.name, lane.codec)
        if self._has_handler_hooks:
            deliveries.append(message)
            self._call_before(message)
        return handler, (body, message) if takes_message else (body,)

    def _prepare_for_child(
        self, job: Job, deliveries: list[Delivery]
    ) -> tuple[Any, tuple[Any, ...]] | None:
        """Call the hooks for the messages; the child decodes the bodies."""
        lane, is_batch = job.lane, job.lane.listener.batch is not None
        leases = [lease for lease in job.leases if lease.state is RUNNING]
        for lease in leases if self._has_handler_hooks else ():
            message = lease.to_delivery(lane.name, lane.codec)
            deliveries.append(message)
            try:
                self._call_before(message)
            except BaseException as error:
                if not is_batch:
                    raise
                lease.fail(error)
        return (self._call_in_child, (job,)) if leases else None

    def _call_before(self, message: Delivery) -> None:
        for before in self._before:
            try:
                before(message)
            except Exception as error:
                error.add_note(f"raised in {getattr(before, '__qualname__', before)}")
                raise

    def _prepare_batch(
        self, job: Job, deliveries: list[Delivery]
    ) -> tuple[Any, tuple[Any, ...]] | None:
        lane = job.lane
        bodies, messages = [], []
        for lease in job.leases:
            if lease.state is not RUNNING:
                continue
            try:
                body = lane.codec.decode(lease.raw)
            except HandlerTimedOut:  # of the whole call, in a child process
                raise
            except BaseException as error:  # noqa: BLE001 - only this message fails
                failure = BodyNotDecodable(lane.name, lease.shown_id, lease.raw)
                failure.__cause__ = error
                lease.fail(failure)
                continue
            message = lease.to_delivery(lane.name, lane.codec)
            deliveries.append(message)
            try:
                self._call_before(message)
            except BaseException as error:  # noqa: BLE001 - only this message fails
                lease.fail(error)
                continue
            bodies.append(body)
            messages.append(message)
        if not bodies:
            return None
        handler, takes_message, _ = lane.listener.handlers.find(None)
        return handler, (bodies, messages) if takes_message else (bodies,)

    def _finish(self, job: Job, deliveries: list[Delivery]) -> None:
        self._own_process.leave_if_copy(None if job.failure is None else job.failure.error)
        job.ended_at = ended_at = time.monotonic()
        if deliveries and self._has_handler_hooks:
            seconds = ended_at - (job.started_at or ended_at)
            for message in deliveries:
                error = message.error
                if error is None and job.failure is not None:
                    error = job.failure.error
                self._hooks.call("after_handle", message, error, seconds)
        self._report_finished(job)
        current_job.set(None)


def _make_timeout(job: Job, cause: BaseException | None) -> HandlerTimedOut:
    error = HandlerTimedOut(f"its handler ran for more than {job.lane.listener.max_runtime:g} s")
    error.__cause__ = cause
    return error


def is_cancelled_by_program(task: asyncio.Task[Any] | None, job: Job) -> bool:
    """Return whether the program, or the handler, has cancelled a call's task, not the worker."""
    return task is not None and task.cancelling() > 0 and job.task is not None


def _reject_unrun_result(result: Any, remedy: str) -> None:
    """
    Raise an error if a function returned a coroutine or generator instead of running it.

    The result is closed.

    Raises:
        TypeError: it did.
    """
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if hasattr(result, "close"):
            result.close()
        raise TypeError(
            f"the handler returned a {type(result).__name__} and did not wait for its end: {remedy}"
        )


def get_failure(job: Job, lease: Lease) -> HandlerFailure | None:
    """Return the failure of a message: its own, or that of its call."""
    return lease.failure if lease.failure is not None else job.failure
