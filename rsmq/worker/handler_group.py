"""
The decorator that registers several handlers which are all called with each message.
"""

from __future__ import annotations

import re
from typing import Any, Generic, TypeVar

from rsmq.errors import InvalidFormat, InvalidValue, show
from rsmq.worker.listener import Handler, HandlerDecorator, Handlers

Body = TypeVar("Body")

#: The record of a message has the names of its finished handlers, so it is bounded by these.
MAX_HANDLERS = 100
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,100}")


class HandlerGroup(Generic[Body]):
    """
    The handlers of one queue, which are all called with each message.

    ``Worker.handlers`` makes it.
    """

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers

    def handler(self, name: str | None = None) -> HandlerDecorator[Body]:
        """
        Return a decorator that registers a function as one of the handlers.

        Args:
            name: 1 to 100 characters of ``A-Z a-z 0-9 _ . : -``. It is stored while a message is
                retried: a handler that has finished under another name is called again. None is
                the name of the function.

        Raises:
            InvalidFormat: the name is invalid, or is used already; the function does not take one
                or two arguments; or plain and async functions are mixed in one queue.
            InvalidValue: there are 100 handlers already.
        """
        if callable(name):
            raise InvalidFormat(
                "name", value=show(name), hint="Add brackets: handler() or handler('invoice')."
            )

        def register(function: Any) -> Any:
            self._add(getattr(function, "__name__", None) if name is None else name, function)
            return function

        return register

    def _add(self, name: object, function: Handler) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidFormat(
                "name",
                value=show(name),
                hint="The name of a handler has 1 to 100 characters of A-Z a-z 0-9 _ . : -. "
                "Pass one: handler('invoice').",
            )
        if len(self._handlers.by_type) >= MAX_HANDLERS:
            number = len(self._handlers.by_type) + 1
            raise InvalidValue("handlers", 1, MAX_HANDLERS, value=number)
        self._handlers.add(name, function)
