"""
Middleware: hooks into the life of messages in a worker.

A middleware overrides the hooks that it needs; the other hooks cost nothing.

- The hooks around a handler run in the handler's thread or task.
- All other hooks run in the worker's own thread, which also extends visibility timeouts. They must
  be quick.
- ``on_success``, ``on_failure`` and ``on_retry`` report outcomes that Redis has confirmed; the last
  two run in a copy of the context variables with which the error was raised.
- An exception in ``before_handle`` counts as the handler's, so the hook can refuse a message with
  Retry, Defer, Discard or DeadLetter. Exceptions in other hooks are logged.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rsmq.errors import InvalidFormat, show
from rsmq.errors.guarded_log import get_logger
from rsmq.worker.delivery import Delivery
from rsmq.worker.forked_copy import OwnProcess
from rsmq.worker.state.error_reader import read_error

_log = get_logger("rsmq.worker")


class Middleware:
    """
    The hooks; each method does nothing here.

    If Redis is unreachable, a write is repeated and its ``before_`` hooks are called again.
    ``worker`` is the ``Worker``, ``message`` a ``Delivery``, ``queue`` the name of a queue, and
    ``queues`` several names.
    """

    def before_start(self, worker: Any) -> None:
        """Run before the worker receives messages."""

    def child_start(self, worker: Any) -> None:
        """
        Run in each child process of listeners with ``process=True``, before its first call.

        All other hooks run in the worker's own process. An exception here keeps the child from
        starting.
        """

    def before_receive(self, queues: Sequence[str]) -> None:
        """Run before a receive from queues, which may return nothing."""

    def after_receive(self, queue: str, messages: Sequence[Delivery]) -> None:
        """Run after messages were received, before their handlers are called."""

    def before_handle(self, message: Delivery) -> None:
        """Run before the handler is called; for a batch once for each message."""

    def after_handle(self, message: Delivery, error: BaseException | None, seconds: float) -> None:
        """
        Run after the handler has ended, with its duration and the exception that it raised, or by
        which an ``after_handle`` before this one has failed the message, as a commit.

        It runs for every message for which ``before_handle`` was called, in any middleware.
        """

    def on_success(self, message: Delivery) -> None:
        """Run after a message was deleted whose handler has returned."""

    def on_failure(self, error: BaseException, message: Delivery, is_final: bool) -> None:  # noqa: FBT001 - a hook
        """
        Run after the outcome of an attempt was written that has failed.

        ``is_final`` says that there is no other attempt: the message is a dead letter, or deleted.
        Retry, Defer, Discard and cancelled jobs are no failures, but a Retry that was the last
        attempt, and a message that was deferred too often.
        """

    def on_retry(self, error: BaseException, message: Delivery, after: float) -> None:
        """Run after a message was hidden until its next attempt, for ``after`` seconds."""

    def before_retry(self, message: Delivery, after: float, error: BaseException) -> None:
        """Run before a message is hidden until its next attempt, for ``after`` seconds."""

    def after_retry(self, message: Delivery, after: float, error: BaseException) -> None:
        """Run after a message was hidden until its next attempt."""

    def before_defer(self, message: Delivery, after: float, error: BaseException) -> None:
        """Run before a message is deferred by ``after`` seconds: its handler raised Defer."""

    def after_defer(self, message: Delivery, after: float, error: BaseException) -> None:
        """Run after a message was deferred."""

    def before_dead_letter(
        self, message: Delivery, queue: str, reason: str, error: BaseException
    ) -> None:
        """
        Run before a message is moved to a dead-letter queue, or to the queue of unroutable ones.
        """

    def after_dead_letter(
        self, message: Delivery, queue: str, reason: str, error: BaseException
    ) -> None:
        """
        Run after a message was moved to a dead-letter queue, or to the queue of unroutable ones.
        """

    def before_delete(self, messages: Sequence[Delivery]) -> None:
        """Run before messages of one queue are deleted that were handled, or dropped."""

    def after_delete(self, messages: Sequence[Delivery]) -> None:
        """Run after messages of one queue were deleted that were handled, or dropped."""

    def after_drop(self, message: Delivery, reason: str, error: BaseException) -> None:
        """Run after a message was deleted without having been handled."""

    def after_release(self, queue: str, count: int) -> None:
        """Run after ``count`` messages were released without having been handled."""

    def after_push(
        self, message: Delivery, target: str, status: int | None, seconds: float
    ) -> None:
        """
        Run after a message was pushed by a webhook; in its task.

        ``target`` is the URL without the text of its query. ``status`` is None if there was no
        answer.
        """

    def after_target_change(self, queue: str, target: str, state: str, answer: str) -> None:
        """
        Run when this process finds a webhook's target in another state than before.

        ``state`` is ``closed`` (messages are pushed), ``open``, ``trial``, ``paused`` or ``gone``.
        ``answer`` is the last answer that was not 2xx; it may be empty.
        """

    def lease_lost(self, message: Delivery, reason: str) -> None:
        """
        Run when a lease is lost: another consumer may have the message. Its handler may still run.
        """

    def before_stop(self, worker: Any) -> None:
        """Run when the worker has stopped receiving."""

    def after_stop(self, worker: Any) -> None:
        """Run when all threads have ended, or the worker no longer waits for them."""


def check_function(name: str, value: object) -> None:
    """Raise InvalidFormat if an argument of a middleware is not a function of a message."""
    if not callable(value):
        hint = "It is a function of the message: a Delivery."
        raise InvalidFormat(name, value=show(value), hint=hint)


class MiddlewareOfOneWorker(Middleware):
    """The base of middleware with a state that belongs to one running worker."""

    _owner: Any = None
    _claiming = threading.Lock()

    def claim(self, worker: Any) -> None:
        """
        Let it belong to a worker that starts.

        Raises:
            InvalidFormat: it belongs to another worker that has not ended.
        """
        with self._claiming:
            owner = self._owner
            if owner is not None and owner is not worker and owner.is_using_middleware:
                raise InvalidFormat(
                    "middleware",
                    value=type(self).__name__,
                    hint="This object is used by another worker that is running. Make one for each "
                    "worker; their limits and locks are shared through Redis.",
                )
            self._owner = worker


class MiddlewareOfEachWorker(Middleware):
    """The base of middleware that workers share, and whose hooks must know the worker."""

    def for_worker(self, worker: Any) -> Middleware:
        """Return the object whose hooks a worker that starts calls."""
        raise NotImplementedError


#: The hooks that run in the worker's own process.
HOOKS = tuple(
    name for name in vars(Middleware) if not name.startswith("_") and name != "child_start"
)


class Hooks:
    """
    The hooks of all middleware of a worker: for each hook the methods to be called, in order.

    ``before_`` hooks are called in the order of the middleware; ``after_`` hooks and lease_lost in
    the opposite order.
    """

    def __init__(self, middleware: Iterable[Middleware]) -> None:
        ordered = list(middleware)
        self._own_process = OwnProcess()
        self._methods: dict[str, tuple[Callable[..., None], ...]] = {}
        for name in HOOKS:
            order = ordered if name.startswith("before_") else reversed(ordered)
            self._methods[name] = tuple(
                getattr(each, name)
                for each in order
                if getattr(type(each), name, None) is not getattr(Middleware, name)
            )

    def __getitem__(self, name: str) -> tuple[Callable[..., None], ...]:
        """Return the methods of a hook; empty if no middleware overrides it."""
        return self._methods[name]

    def call_before(self, message: Delivery) -> None:
        """
        Call ``before_handle``.

        Raises:
            The exceptions of the hooks.
        """
        for before in self._methods["before_handle"]:
            try:
                before(message)
            except Exception as error:
                error.add_note(f"raised in {getattr(before, '__qualname__', before)}")
                raise

    def call(self, name: str, *args: Any) -> None:
        """Call all methods of a hook; their exceptions are logged."""
        for method in self._methods[name]:
            self.call_method(method, *args)

    def call_method(self, method: Callable[..., None], *args: Any) -> None:
        """Call a method of a hook; its exception is logged."""
        try:
            method(*args)
            self._own_process.leave_if_copy()
        except BaseException as error:  # noqa: BLE001 - a hook must not end a worker
            self._own_process.leave_if_copy(error)
            shown = read_error(error).error
            _log.error("%s failed", getattr(method, "__qualname__", method), exc_info=shown)
