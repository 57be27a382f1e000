"""
The decorator that registers handlers by message type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from rsmq.errors import InvalidFormat, show
from rsmq.worker.listener import Handlers

Function = TypeVar("Function", bound=Callable[..., Any])


class Router:
    """
    The handlers of one queue, by the type of its messages.

    ``Worker.router`` makes it.
    """

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers

    def on(self, *types: str) -> Callable[[Function], Function]:
        """
        Return a decorator that registers a function as the handler of messages of these types.

        Args:
            types: one type or several, as the route returns them.

        Raises:
            InvalidFormat: no type was passed, or one is not a str; one of them has a handler
                already; the function does not take one or two arguments; or plain and async
                functions are mixed in one queue.
        """
        if not types or not all(isinstance(kind, str) for kind in types):
            raise InvalidFormat(
                "type", value=show(types), hint="on() takes one or several types, each a str."
            )

        def register(function: Function) -> Function:
            self._handlers.refuse_registered(types)
            for kind in types:
                self._handlers.add(kind, function)
            return function

        return register
