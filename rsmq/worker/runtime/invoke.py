"""
One call of a handler, in a thread or a task.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from rsmq.errors import BodyNotDecodable
from rsmq.worker.delivery import Delivery
from rsmq.worker.middleware import Hooks
from rsmq.worker.outcome import LeaseOver
from rsmq.worker.runtime.message_state import Job, Lease, Single

#: The messages that are being handled here: for log lines of handlers.
current: ContextVar[Job | None] = ContextVar("rsmq_job", default=None)


def current_message() -> Delivery | None:
    """The message that is being handled in this thread or task; None outside, and for a batch."""
    job = current.get()
    if job is None or job.lane.listener.batch:
        return None
    return job.leases[0].message(job.lane.name, job.lane.codec)


class Invoker:
    """Makes calls, and notes their ends."""

    def __init__(self, hooks: Hooks, ended: Callable[[Job], object]) -> None:
        """
        Make one.

        Args:
            hooks: the worker's.
            ended: told of each call that ended.
        """
        self._before = hooks["before_handle"]
        self._hooks = hooks
        self._hooked = bool(self._before or hooks["after_handle"])
        self._ended = ended

    def call(self, job: Job) -> None:
        """Call a plain function."""
        current.set(job)
        seen: list[Delivery] = []
        try:
            call = self._prepared(job, seen)
            if call is not None:
                handler, args = call
                result = handler(*args)
                if result is not None:
                    _refuse_what_did_not_run(result)
        except BaseException as error:  # noqa: BLE001 - what becomes of it is decided elsewhere
            job.error = error
        self._end(job, seen)

    async def await_(self, job: Job) -> None:
        """Await an async function."""
        current.set(job)
        seen: list[Delivery] = []
        try:
            call = self._prepared(job, seen)
            if call is not None:
                handler, args = call
                await handler(*args)
        except BaseException as error:  # noqa: BLE001 - as above
            job.error = error
        self._end(job, seen)

    def _prepared(self, job: Job, seen: list[Delivery]) -> tuple[Any, tuple[Any, ...]] | None:
        """The handler and its arguments; None where there is nothing to be handled."""
        lane = job.lane
        if lane.listener.batch is not None:
            return self._batch(job, seen)
        lease: Lease = job if job.__class__ is Single else job.leases[0]
        if lease.lost or (job.began is not None and lease.ends <= job.began):
            raise LeaseOver
        try:
            body = lane.codec.decode(lease.raw)
        except Exception as error:
            raise BodyNotDecodable(lane.name, lease.id, lease.raw) from error
        handler, takes_message, body = lane.listener.handlers.of(body)
        if not takes_message and not self._hooked:
            return handler, (body,)
        message = lease.message(lane.name, lane.codec)
        if self._hooked:
            seen.append(message)
            self._call_before(message)
        return handler, (body, message) if takes_message else (body,)

    def _call_before(self, message: Delivery) -> None:
        for before in self._before:
            try:
                before(message)
            except Exception as error:
                error.add_note(f"raised in {getattr(before, '__qualname__', before)}")
                raise

    def _batch(self, job: Job, seen: list[Delivery]) -> tuple[Any, tuple[Any, ...]] | None:
        lane = job.lane
        bodies, messages = [], []
        for lease in job.leases:
            if lease.lost or (job.began is not None and lease.ends <= job.began):
                lease.told = True  # it is not handled
                continue
            try:
                body = lane.codec.decode(lease.raw)
            except Exception as error:  # noqa: BLE001 - of this message alone
                lease.error = BodyNotDecodable(lane.name, lease.id, lease.raw)
                lease.error.__cause__ = error
                continue
            message = lease.message(lane.name, lane.codec)
            seen.append(message)
            try:
                self._call_before(message)
            except Exception as error:  # noqa: BLE001 - of this message alone
                lease.error = error
                continue
            bodies.append(body)
            messages.append(message)
        if not bodies:
            return None
        handler, takes_message, _ = lane.listener.handlers.of(None)
        return handler, (bodies, messages) if takes_message else (bodies,)

    def _end(self, job: Job, seen: list[Delivery]) -> None:
        job.ended = ended = time.monotonic()
        if seen and self._hooked:
            seconds = ended - (job.began or ended)
            for message in seen:
                error = message.error if message.error is not None else job.error
                self._hooks.call("after_handle", message, error, seconds)
        self._ended(job)
        current.set(None)


def _refuse_what_did_not_run(result: Any) -> None:
    """
    Close what a function returned instead of doing its work, as an async one behind a plain one.

    Raises:
        TypeError: it did.
    """
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if hasattr(result, "close"):
            result.close()
        raise TypeError(
            f"the handler returned a {type(result).__name__} and ran nothing of it: declare it "
            "with async def, also where it is decorated"
        )


def error_of(job: Job, lease: Lease) -> BaseException | None:
    """What was wrong with a message of a call: of its own, or of the call."""
    return lease.error if lease.error is not None else job.error
