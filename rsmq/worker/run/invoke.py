"""
One call of a handler, in a thread or a task.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from typing import Any

from rsmq.codecs import blocks, make_not_decodable
from rsmq.errors import BodyUnavailable
from rsmq.worker.delivery import Delivery
from rsmq.worker.forked_copy import OwnProcess
from rsmq.worker.middleware import Hooks
from rsmq.worker.outcome import Defer, HandlerCancelled, HandlerStopped, HandlerTimedOut
from rsmq.worker.run.contexts import InContext, context_maker
from rsmq.worker.run.group_call import ReportProgress, call_async_handlers, call_handlers
from rsmq.worker.run.results import keep_result
from rsmq.worker.state.calls import Job, Lease
from rsmq.worker.state.error_reader import read_error
from rsmq.worker.state.jobs import GroupJob, SingleJob
from rsmq.worker.state.lane import Lane
from rsmq.worker.state.message_state import RUNNING

#: A message whose task the program has cancelled is deferred if fewer of its receives were no
#: attempts. More cancellations may be the work of its handler, and count.
_MAX_CANCELLATIONS = 2
#: How many bodies of a batch are loaded side by side.
_MAX_LOADS = 16
#: Advice for a handler whose result has not run.
_DECLARE_ASYNC = "declare it with async def, also where it is decorated"
_AWAIT = "await it in the handler"

#: The call that this thread or task runs; for the log records of handlers.
current_job: ContextVar[Job | None] = ContextVar("rsmq_job", default=None)
#: The message of a call without a worker.
message_of_call: ContextVar[Delivery | None] = ContextVar("rsmq_message", default=None)


def current_message() -> Delivery | None:
    """
    Return the message that this thread or task handles; None outside a handler, and for a batch.
    """
    job = current_job.get()
    if job is None:
        return message_of_call.get()
    if job.lane.listener.batch:
        return None
    return job.leases[0].to_delivery(job.lane.name, job.lane.codec)


class Invoker:
    """Calls handlers, and records how the calls end."""

    def __init__(
        self,
        hooks: Hooks,
        report_finished: Callable[[Job], object],
        call_in_child: Callable[..., object] | None = None,
        report_progress: ReportProgress = lambda _job: None,
    ) -> None:
        """
        Make one. Each call has a copy of the context variables that there are now.

        Args:
            hooks: the worker's middleware.
            report_finished: called with each call that ended.
            call_in_child: makes the calls of listeners with ``process=True``, of one of several
                handlers by its name; None in a child process, which makes all calls itself.
            report_progress: called when one of several handlers of a message has ended and others
                follow.
        """
        self._make_context = context_maker()
        self._call_in_child = call_in_child
        self._hooks = hooks
        self._has_handler_hooks = bool(hooks["before_handle"] or hooks["after_handle"])
        self._report_finished = report_finished
        self._report_progress = report_progress
        self._own_process = OwnProcess()

    def call(self, job: Job) -> None:
        """Call a plain function, in a context of its own."""
        self._make_context().run(self._call, job)

    def _call(self, job: Job) -> None:
        current_job.set(job)
        deliveries: list[Delivery] = []
        try:
            if self._loads_bodies(job):
                _load_bodies(job)
            call = self._prepare(job, deliveries)
            if call is not None:
                handler, args = call
                result = handler(*args)
                if result is not None:
                    keep_result(job, result, _DECLARE_ASYNC)
        except BaseException as error:  # noqa: BLE001 - the settler decides the outcome
            job.failure = read_error(error, job.lane.policy)
        self._finish(job, deliveries)

    def begin_async(self, job: Job) -> InContext[None] | None:
        """
        Call an async function, in a context of its own, until it waits for something.

        Returns:
            The rest of the call, to be awaited; None if it has ended.
        """
        context, call = self._make_context(), self._call_async(job)
        try:
            awaited = context.run(call.send, None)
        except StopIteration:
            return None
        return InContext(context, call, awaited)

    async def _call_async(self, job: Job) -> None:
        current_job.set(job)
        deliveries: list[Delivery] = []
        try:
            if self._loads_bodies(job):
                await asyncio.to_thread(_load_bodies, job)
            call = self._prepare(job, deliveries)
            if call is not None:
                handler, args = call
                result = await handler(*args)
                if result is not None:
                    keep_result(job, result, _AWAIT)
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

    def _loads_bodies(self, job: Job) -> bool:
        """Return whether this process loads bodies from a store: a child process loads its own."""
        lane = job.lane
        return blocks(lane.codec) and not (
            lane.listener.handlers.process and self._call_in_child is not None
        )

    def _prepare(self, job: Job, deliveries: list[Delivery]) -> tuple[Any, tuple[Any, ...]] | None:
        """Return the handler and its arguments; None if there is nothing to handle."""
        lane = job.lane
        if lane.listener.handlers.process and self._call_in_child is not None:
            return self._prepare_for_child(job, deliveries)
        if lane.listener.batch is not None:
            return self._prepare_batch(job, deliveries)
        lease: Lease = job if job.__class__ is SingleJob else reject_cancelled(job)
        if lease.state is not RUNNING:
            return None
        body = _decode_body(lane, lease)
        handlers = lane.listener.handlers
        if handlers.is_group:
            return self._prepare_group(job, body, deliveries)  # type: ignore[arg-type]
        job.message_type, body = handlers.find(body)
        handler, takes_message = handlers.by_type[job.message_type]
        if not takes_message and not self._has_handler_hooks:
            return handler, (body,)
        message = lease.to_delivery(lane.name, lane.codec)
        if self._has_handler_hooks:
            deliveries.append(message)
            self._hooks.call_before(message)
        return handler, (body, message) if takes_message else (body,)

    def _prepare_group(
        self, job: GroupJob, body: Any, deliveries: list[Delivery]
    ) -> tuple[Any, tuple[Any, ...]]:
        """Return what calls the handlers of a message that have not finished."""
        lane = job.lane
        handlers = lane.listener.handlers
        if self._has_handler_hooks:
            message = job.to_delivery(lane.name, lane.codec)
            deliveries.append(message)
            self._hooks.call_before(message)
        decoded = [body]

        def call(name: str) -> Any:
            # Each handler has a body of its own, which it may change.
            body = decoded.pop() if decoded else _decode_body(lane, job)
            handler, takes_message = handlers.by_type[name]
            if takes_message:
                return handler(body, job.to_delivery(lane.name, lane.codec))
            return handler(body)

        if job.handler is not None:
            return call, (job.handler,)
        if handlers.is_async:
            return call_async_handlers, (job, call, self._report_progress, _AWAIT)
        return call_handlers, (job, call, self._report_progress, _DECLARE_ASYNC)

    def _prepare_for_child(
        self, job: Job, deliveries: list[Delivery]
    ) -> tuple[Any, tuple[Any, ...]] | None:
        """Call the hooks for the messages; the child decodes the bodies."""
        reject_cancelled(job)
        lane, is_batch = job.lane, job.lane.listener.batch is not None
        leases = [lease for lease in job.leases if lease.state is RUNNING]
        for lease in leases if self._has_handler_hooks else ():
            message = lease.to_delivery(lane.name, lane.codec)
            deliveries.append(message)
            try:
                self._hooks.call_before(message)
            except BaseException as error:
                if not is_batch:
                    raise
                lease.fail(error)
        if not leases:
            return None
        if isinstance(job, GroupJob):
            assert self._call_in_child is not None  # noqa: S101 - the caller has looked
            call = partial(self._call_in_child, job)
            return call_handlers, (job, call, self._report_progress, "")
        return self._call_in_child, (job,)

    def _prepare_batch(
        self, job: Job, deliveries: list[Delivery]
    ) -> tuple[Any, tuple[Any, ...]] | None:
        lane = job.lane
        bodies, messages = [], []
        for lease in job.leases:
            if lease.state is not RUNNING or lease.error is not None:
                continue
            try:
                body = _decode_body(lane, lease)
            except (HandlerTimedOut, HandlerStopped):  # of the whole call, in a child process
                raise
            except BaseException as error:  # noqa: BLE001 - only this message fails
                lease.fail(error)
                continue
            message = lease.to_delivery(lane.name, lane.codec)
            deliveries.append(message)
            try:
                self._hooks.call_before(message)
            except BaseException as error:  # noqa: BLE001 - only this message fails
                lease.fail(error)
                continue
            bodies.append(body)
            messages.append(message)
        if not bodies:
            return None
        handler, takes_message = lane.listener.handlers.by_type[""]
        return handler, (bodies, messages) if takes_message else (bodies,)

    def _finish(self, job: Job, deliveries: list[Delivery]) -> None:
        self._own_process.leave_if_copy(None if job.failure is None else job.failure.error)
        job.ended_at = ended_at = time.monotonic()
        if deliveries and self._has_handler_hooks:
            seconds = ended_at - (job.started_at or ended_at)
            for message in deliveries:
                for after in self._hooks["after_handle"]:
                    error = message.error  # an inner hook may have set it, as a commit that failed
                    if error is None and job.failure is not None:
                        error = job.failure.error
                    self._hooks.call_method(after, message, error, seconds)
        self._report_finished(job)


def _decode_body(lane: Lane, lease: Lease) -> Any:
    """
    Return the body of a message.

    Raises:
        Defer: the codec can't reach a key or the like now; this is not an attempt.
        BodyNotDecodable: the codec can't decode it.
        HandlerTimedOut, HandlerStopped: in a child process, during a slow decoding.
    """
    try:
        return lane.codec.decode(lease.raw)
    except (HandlerTimedOut, HandlerStopped):
        raise
    except BodyUnavailable as error:
        raise Defer(str(error)) from error
    except BaseException as error:
        raise make_not_decodable(lane.name, lease.id, lease.raw, error) from error


def _load_bodies(job: Job) -> None:
    """
    Load the bodies of the messages of a call from the codec's store, side by side.

    From then on the messages have them, so hooks and handlers do not wait for the store.
    """
    lane = job.lane
    leases = [each for each in job.leases if each.state is RUNNING and each.error is None]

    def load(lease: Lease) -> BaseException | None:
        try:
            raw = lease.raw
            lease.raw = lane.codec.load(raw)  # type: ignore[attr-defined]
            lease.reference = raw
        except BodyUnavailable as error:
            return Defer(str(error))
        except Exception as error:  # noqa: BLE001 - the message fails
            return make_not_decodable(lane.name, lease.id, lease.raw, error)
        return None

    with ThreadPoolExecutor(min(_MAX_LOADS, len(leases) or 1), "rsmq-bodies") as threads:
        errors = list(threads.map(load, leases)) if len(leases) > 1 else list(map(load, leases))
    for lease, error in zip(leases, errors, strict=True):
        if error is not None and lane.listener.batch is None:
            raise error
        if error is not None:
            lease.fail(error)


def reject_cancelled(job: Job) -> Lease:
    """Return the first message of a call; raise HandlerCancelled if its job is to be cancelled."""
    lease = job.leases[0]
    if lease.is_cancelled:
        raise HandlerCancelled("its job was cancelled before its handler was called")
    return lease


def _make_timeout(job: Job, cause: BaseException | None) -> HandlerTimedOut:
    error = HandlerTimedOut(f"its handler ran for more than {job.lane.listener.max_runtime:g} s")
    error.__cause__ = cause
    return error


def is_cancelled_by_program(task: asyncio.Task[Any] | None, job: Job) -> bool:
    """Return whether the program, or the handler, has cancelled a call's task, not the worker."""
    return task is not None and task.cancelling() > 0 and job.task is not None
