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

    Made by ``Worker.router``.
    """

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers

    def on(self, *types: str) -> Callable[[Function], Function]:
        """
        A decorator: the function handles messages of these types.

        Args:
            types: one or several, as the route tells them.

        Raises:
            InvalidFormat: there is a handler of one of them already; or it is not a function of one
                or two arguments; or others of this queue are async and it is not, or the other way.
        """
        if not types or not all(isinstance(kind, str) for kind in types):
            raise InvalidFormat(
                "type", value=show(types), hint="on() takes one or several types, each a str."
            )

        def register(function: Function) -> Function:
            self._handlers.check(types)
            for kind in types:
                self._handlers.add(kind, function)
            return function

        return register
