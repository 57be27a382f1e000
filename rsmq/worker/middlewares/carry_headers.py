"""
A middleware that makes the headers of a message the current ones of its handler.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from rsmq.headers import use_headers
from rsmq.worker.delivery import Delivery
from rsmq.worker.middleware import Middleware
from rsmq.worker.run.invoke import current_message


class CarryHeaders(Middleware):
    """
    A middleware with which the headers of a message are the current ones while it is handled.

    So ``current_headers()`` returns them, the log records of the handler have them
    (``HeaderFilter``), and messages that the handler sends with an ``EnvelopeCodec`` carry them on.
    Tasks do this by themselves.

    For a batch it does nothing, since its messages have different headers. A child process of
    ``process=True`` does not see them: there, use ``with use_headers(message.headers)``.
    """

    def __init__(self) -> None:
        self._entered: dict[int, AbstractContextManager[None]] = {}

    def before_handle(self, message: Delivery) -> None:
        headers = message.headers
        if headers and current_message() is not None:
            context = use_headers(headers)
            context.__enter__()
            self._entered[id(message)] = context

    def after_handle(self, message: Delivery, error: BaseException | None, seconds: float) -> None:  # noqa: ARG002 - a hook
        context = self._entered.pop(id(message), None)
        if context is not None:
            context.__exit__(None, None, None)
