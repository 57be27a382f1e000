"""
Middleware: hooks into the life of messages in a worker.

A middleware overrides what it needs; what it leaves alone costs nothing. The hooks around a
handler run where the handler runs; all others in the worker's own thread, which extends visibility
timeouts too: they must be quick. An exception in ``before_handle`` counts as the handler's, so that
it may refuse a message with Retry, Discard or DeadLetter; others are logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rsmq.model import Message

_log = logging.getLogger("rsmq.worker")


class Middleware:
    """
    What can be hooked into; each method does nothing here.

    A write that is repeated because Redis was away calls its ``before_`` hooks once more.
    ``worker`` is the ``Worker``, ``message`` a ``Delivery``, ``queue`` the name of a queue, and
    ``queues`` several names.
    """

    def before_start(self, worker: Any) -> None:
        """Before a worker receives."""

    def before_receive(self, queues: Sequence[str]) -> None:
        """Before a look into queues that may find nothing."""

    def after_receive(self, queue: str, messages: Sequence[Message]) -> None:
        """Messages were received; their handlers have not been called."""

    def before_handle(self, message: Message) -> None:
        """Before the handler is called, of a batch for each message."""

    def after_handle(self, message: Message, error: BaseException | None, seconds: float) -> None:
        """
        After the handler ended, with what it raised and how long it took.

        For every message for which before_handle was called, of whatever middleware.
        """

    def before_retry(self, message: Message, after: float, error: BaseException) -> None:
        """Before a message is hidden until its next attempt."""

    def after_retry(self, message: Message, after: float, error: BaseException) -> None:
        """After that."""

    def before_dead_letter(
        self, message: Message, queue: str, reason: str, error: BaseException
    ) -> None:
        """Before a message is moved to a dead-letter queue, or to that of unroutable ones."""

    def after_dead_letter(
        self, message: Message, queue: str, reason: str, error: BaseException
    ) -> None:
        """After that."""

    def before_delete(self, messages: Sequence[Message]) -> None:
        """Before messages of one queue are deleted that were handled, or dropped."""

    def after_delete(self, messages: Sequence[Message]) -> None:
        """After that."""

    def after_drop(self, message: Message, reason: str, error: BaseException) -> None:
        """A message was deleted without having been handled."""

    def after_release(self, queue: str, count: int) -> None:
        """So many messages were given back without having been handled."""

    def lease_lost(self, message: Message, reason: str) -> None:
        """A message may be somebody else's by now; its handler may still run."""

    def before_stop(self, worker: Any) -> None:
        """The worker receives no more."""

    def after_stop(self, worker: Any) -> None:
        """All threads have ended, or are not waited for any longer."""


HOOKS = tuple(name for name in vars(Middleware) if not name.startswith("_"))


class Hooks:
    """
    All middleware of a worker: for each hook the methods to be called, in order.

    Hooks that begin with ``after_`` are called in the opposite order, and so is lease_lost.
    """

    def __init__(self, middleware: Iterable[Middleware]) -> None:
        given = list(middleware)
        self._called: dict[str, tuple[Callable[..., None], ...]] = {}
        for name in HOOKS:
            order = given if name.startswith("before_") else reversed(given)
            self._called[name] = tuple(
                getattr(each, name)
                for each in order
                if getattr(type(each), name, None) is not getattr(Middleware, name)
            )

    def __getitem__(self, name: str) -> tuple[Callable[..., None], ...]:
        """The methods to be called; empty where nobody hooked in."""
        return self._called[name]

    def call(self, name: str, *args: Any) -> None:
        """Call all methods of a hook; what one raises is logged."""
        for method in self._called[name]:
            try:
                method(*args)
            except BaseException:  # noqa: BLE001 - a hook must not end a worker
                _log.exception("%s failed", getattr(method, "__qualname__", method))
