"""
Decides when messages are received which of them may be handled now.

The decisions are made for all messages of a receive in one call to Redis, in the worker's own
thread. So no handler waits for Redis, and async handlers are not blocked. The other messages are
deferred when their handlers would be called.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from rsmq.errors import InvalidFormat, show
from rsmq.wire.limits import check_duration
from rsmq.worker.delivery import Delivery
from rsmq.worker.middleware import Middleware
from rsmq.worker.outcome import MAX_DEFER_SECONDS, Defer

#: Returns the key of a message; None if it has none, and so no limit.
KeyOf: TypeAlias = Callable[[Delivery[Any]], str | None]

#: Decisions about messages that were released before their call are forgotten beyond this number.
_MAX_DECISIONS = 100_000
MAX_KEY_CHARACTERS = 500


class NotAdmitted(Defer):
    """Raised in ``before_handle`` for a message that may not be handled now."""


class AdmissionAtReceive(Middleware):
    """The base of middleware that defers messages by a decision of Redis."""

    def __init__(self, queues: Iterable[str] | None, key: KeyOf | None, after: float) -> None:
        if isinstance(queues, str):
            queues = [queues]
        if key is not None and not callable(key):
            raise InvalidFormat(
                "key", value=show(key), hint="It is a function of the message: a Delivery."
            )
        self._queues = None if queues is None else frozenset(queues)
        self._key = key
        self._after = check_duration("after", after, high=MAX_DEFER_SECONDS)
        self._worker: Any = None
        #: By receipt None, or the exception that ``before_handle`` raises.
        self._decisions: OrderedDict[tuple[str, str, int], Exception | None] = OrderedDict()

    def before_start(self, worker: Any) -> None:
        self._worker = worker
        self._decisions.clear()

    def _covers(self, queue: str) -> bool:
        return self._queues is None or queue in self._queues

    @abstractmethod
    def _admit(
        self, queue: str, keyed: Sequence[tuple[Delivery, str]]
    ) -> Sequence[Exception | None]:
        """Return for each message, with its key, None or the exception that refuses it."""

    def _key_of(self, message: Delivery) -> str | None:
        key = "" if self._key is None else self._key(message)
        if key is not None and (not isinstance(key, str) or len(key) > MAX_KEY_CHARACTERS):
            raise InvalidFormat(
                "key",
                value=show(key),
                hint=f"The function returns a str of at most {MAX_KEY_CHARACTERS} characters, or "
                "None.",
            )
        return key

    def after_receive(self, queue: str, messages: Sequence[Delivery]) -> None:
        if not self._covers(queue):
            return
        keyed: list[tuple[Delivery, str]] = []
        for message in messages:
            try:
                key = self._key_of(message)
            except Exception as error:  # noqa: BLE001 - the message fails, and no other one
                self._decide(message, error)
            else:
                if key is None:
                    self._decide(message, None)
                else:
                    keyed.append((message, key))
        if keyed:
            results = self._admit(queue, keyed)
            for (message, _), result in zip(keyed, results, strict=True):
                self._decide(message, result)

    def _decide(self, message: Delivery, decision: Exception | None) -> None:
        self._decisions[_receipt_of(message)] = decision
        if len(self._decisions) > _MAX_DECISIONS:
            self._decisions.popitem(last=False)

    def before_handle(self, message: Delivery) -> None:
        if not self._covers(message.queue):
            return
        undecided = NotAdmitted("Redis did not answer", after=self._after)
        decision = self._decisions.pop(_receipt_of(message), undecided)
        if decision is not None:
            raise decision


def _receipt_of(message: Delivery) -> tuple[str, str, int]:
    return message.queue, message.id, message.receive_count
