"""
A middleware that refuses messages by a predicate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from rsmq.errors import InvalidFormat, show
from rsmq.worker.delivery import Delivery
from rsmq.worker.middleware import Middleware, check_function
from rsmq.worker.outcome import DeadLetter, Discard

_REFUSALS = {"dead_letter": DeadLetter, "discard": Discard}


class Permission(Middleware):
    """
    A middleware that lets a handler be called only with messages that a function allows.

    The function runs in the thread or task of the handler, so for async handlers it must not block;
    for ``process=True`` in the worker's process. It costs no call to Redis.
    """

    def __init__(
        self,
        allow: Callable[[Delivery[Any]], object],
        *,
        otherwise: Literal["dead_letter", "discard"] = "dead_letter",
        reason: str = "not allowed",
    ) -> None:
        """
        Make it.

        Args:
            allow: called with each message; a false result refuses it. An exception counts as the
                handler's.
            otherwise: "dead_letter" moves a refused message to the dead-letter queue at once,
                "discard" deletes it. Without a dead-letter queue it is deleted if the listener has
                ``drop=True``, else retried.
            reason: the text of the outcome, for the log and the dead letter.

        Raises:
            InvalidFormat: allow is not callable, or otherwise is another value.
        """
        check_function("allow", allow)
        if otherwise not in _REFUSALS:
            raise InvalidFormat(
                "otherwise", value=show(otherwise), hint="It is 'dead_letter' or 'discard'."
            )
        self._allow = allow
        self._refusal = _REFUSALS[otherwise]
        self._reason = reason

    def before_handle(self, message: Delivery) -> None:
        if not self._allow(message):
            raise self._refusal(self._reason)
