"""
A middleware that runs each call inside a context manager.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from rsmq.errors import InvalidFormat, show
from rsmq.worker.delivery import Delivery
from rsmq.worker.middleware import Middleware, check_function
from rsmq.worker.state.jobs import GroupJob

T = TypeVar("T")

_NONE: Any = object()


class CallContext(Middleware, Generic[T]):
    """
    A middleware that enters a context manager before a handler is called, and leaves it after that.

    It is for what a call needs around it, such as a session of a database. In the handler, and in
    the functions that it calls, ``value`` is the value of the context manager. The context is left
    with the handler's exception. If leaving it raises, as a failed commit does, the message has
    failed.

    It is entered and left in the thread or task of the handler. In a batch each message has a
    context, and ``value`` is that of the last one. A child process of ``process=True`` does not see
    the value. For several handlers of one message (``Worker.handlers``) it does nothing: if one of
    them failed, leaving a common context would undo the work of others that have finished, and are
    not called again. There, use ``with session.enter(message)`` in each handler.

    Attributes:
        enter: returns the context manager for a message.
    """

    def __init__(self, enter: Callable[[Delivery[Any]], AbstractContextManager[T]]) -> None:
        """
        Make it.

        Args:
            enter: returns the context manager for a message. It must not be an asynchronous one;
                for async handlers it must not block.

        Raises:
            InvalidFormat: it is not callable.
        """
        check_function("enter", enter)
        self.enter = enter
        self._value: ContextVar[T] = ContextVar("rsmq_call_context", default=_NONE)
        #: The contexts that are entered, by the identity of their messages.
        self._entered: dict[int, AbstractContextManager[T]] = {}

    @property
    def value(self) -> T:
        """
        The value of the context of this call.

        Raises:
            LookupError: no handler runs in this thread or task.
        """
        value = self._value.get()
        if value is _NONE:
            raise LookupError(
                "there is no context: no handler runs here, it is in a child process, or it is one "
                "of several handlers"
            )
        return value

    def before_handle(self, message: Delivery) -> None:
        if isinstance(message._lease, GroupJob):  # noqa: SLF001 - see the class
            return
        context = self.enter(message)
        if not isinstance(context, AbstractContextManager):
            raise InvalidFormat(
                "enter",
                value=show(context),
                hint="It returns a context manager. Use an asynchronous one inside the handler.",
            )
        value = context.__enter__()
        self._entered[id(message)] = context
        self._value.set(value)

    def after_handle(self, message: Delivery, error: BaseException | None, seconds: float) -> None:  # noqa: ARG002 - a hook
        context = self._entered.pop(id(message), None)
        if context is None:  # an earlier hook raised, or there are several handlers
            return
        try:
            context.__exit__(
                None if error is None else type(error),
                error,
                None if error is None else error.__traceback__,
            )
        except BaseException as failure:  # noqa: BLE001 - it decides the outcome of the message
            if failure is not error:  # as contextlib's raise the exception that they were passed
                message.fail(failure)
        finally:
            self._value.set(_NONE)
