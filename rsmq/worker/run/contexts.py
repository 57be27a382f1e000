"""
The context variables of handler calls: each call has a copy of those with which its worker was
started, so what a handler sets ends with its call.
"""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

T_co = TypeVar("T_co", covariant=True)

_NOTHING: Any = object()


def context_maker() -> Callable[[], contextvars.Context]:
    """
    Return a function that returns a new copy of the present context at each call.

    A copy shares the values of the variables. In the standard library only that of ``decimal`` is
    changed in place, so each copy has its own.
    """
    base = contextvars.copy_context()
    decimal = sys.modules.get("decimal")
    if decimal is None or not any(isinstance(each, decimal.Context) for each in base.values()):
        return base.copy

    def copy() -> contextvars.Context:
        context = base.copy()
        context.run(lambda: decimal.setcontext(decimal.getcontext().copy()))
        return context

    return copy


def copy_context() -> contextvars.Context:
    """Return a copy of the present context."""
    return context_maker()()


class InContext(Generator[Any, Any, T_co]):
    """
    A coroutine that runs in a context of its own, awaited in a task that has another one.

    A task for each call would also have a context, but take a turn of the event loop.

    Attributes:
        cr_await: the coroutine; under this name readers of stacks look for what is awaited.
    """

    __slots__ = ("_awaited", "_context", "cr_await")

    def __init__(
        self,
        context: contextvars.Context,
        coroutine: Coroutine[Any, Any, T_co],
        awaited: Any = _NOTHING,
    ) -> None:
        """
        Make it.

        Args:
            context: its context.
            coroutine: the coroutine.
            awaited: what the coroutine waits for, if its first step was made already.
        """
        self.cr_await = coroutine
        self._context = context
        self._awaited = awaited

    def __await__(self) -> InContext[T_co]:
        return self

    def send(self, value: Any) -> Any:
        """Make a step of the coroutine; return what it waits for."""
        if self._awaited is not _NOTHING:
            awaited, self._awaited = self._awaited, _NOTHING
            return awaited
        return self._context.run(self.cr_await.send, value)

    def throw(self, *error: Any) -> Any:
        """Raise an exception in the coroutine, as its task is cancelled."""
        return self._context.run(self.cr_await.throw, *error)

    def close(self) -> None:
        """Close the coroutine."""
        self._context.run(self.cr_await.close)
