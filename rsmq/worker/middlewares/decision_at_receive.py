"""
Decides when messages are received which of them may be handled now.

The decisions are made for all messages of a receive in one call to Redis, in the worker's own
thread. So no handler waits for Redis, and async handlers are not blocked. The other messages are
deferred when their handlers would be called.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from rsmq.errors import InvalidFormat, show
from rsmq.wire.limits import check_duration
from rsmq.worker.delivery import Delivery
from rsmq.worker.middleware import MiddlewareOfOneWorker, check_function
from rsmq.worker.outcome import MAX_DEFER_SECONDS, Defer

#: Returns the key of a message; None if it has none, and so no limit.
KeyOf: TypeAlias = Callable[[Delivery[Any]], str | None]

#: Decisions about messages that were released before their call are forgotten beyond this number.
_MAX_DECISIONS = 100_000
MAX_KEY_CHARACTERS = 500
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,160}")


class NotAdmitted(Defer):
    """
    Raised in ``before_handle`` for a message that may not be handled now.

    Attributes:
        by: the middleware that has decided so.
    """

    by: DecisionAtReceive | None = None


class DecisionAtReceive(MiddlewareOfOneWorker):
    """The base of middleware that defers messages by a decision of Redis."""

    def __init__(self, queues: Iterable[str] | None, key: KeyOf | None, after: float) -> None:
        if isinstance(queues, str):
            queues = [queues]
        if key is not None:
            check_function("key", key)
        self._queues = None if queues is None else frozenset(queues)
        self._key = key
        self._after = check_duration("after", after, high=MAX_DEFER_SECONDS)
        self._worker: Any = None
        #: Those of the worker that decide before this one: ``after_`` hooks run in reverse order.
        self._deciding_before: list[DecisionAtReceive] = []
        #: By receipt None, or the exception that ``before_handle`` raises.
        self._decisions: OrderedDict[tuple[str, str, int], Exception | None] = OrderedDict()

    def before_start(self, worker: Any) -> None:
        self._worker = worker
        self._decisions.clear()
        ordered = [
            each
            for each in worker._middleware  # noqa: SLF001 - a part of the worker
            if isinstance(each, DecisionAtReceive)
        ]
        self._deciding_before = ordered[ordered.index(self) + 1 :]

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
            refusal = self._find_refusal(message)
            if refusal is not None:  # it uses no permit, and gets no lock
                self._decide(message, refusal)
                continue
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
                if isinstance(result, NotAdmitted):
                    result.by = self
                self._decide(message, result)

    def _find_refusal(self, message: Delivery) -> Exception | None:
        """Return the decision against a message by those that decide before."""
        receipt = _receipt_of(message)
        for each in self._deciding_before:
            refusal = each._decisions.get(receipt)  # noqa: SLF001 - of the same class
            if refusal is not None:
                return refusal
        return None

    def _decide(self, message: Delivery, decision: Exception | None) -> None:
        self._decisions[_receipt_of(message)] = decision
        if len(self._decisions) > _MAX_DECISIONS:
            self._decisions.popitem(last=False)

    def before_handle(self, message: Delivery) -> None:
        if not self._covers(message.queue):
            return
        undecided = NotAdmitted("Redis did not answer", after=self._after)
        undecided.by = self
        decision = self._decisions.pop(_receipt_of(message), undecided)
        if decision is not None:
            raise decision


def check_name(name: str | None) -> str | None:
    """
    Check the name of a limit or of locks, and return it.

    Raises:
        InvalidFormat: it is neither None nor a valid name.
    """
    if name is not None and not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise InvalidFormat(
            "name", value=show(name), hint="It has 1 to 160 characters of A-Z a-z 0-9 _ -"
        )
    return name


def _receipt_of(message: Delivery) -> tuple[str, str, int]:
    return message.queue, message.id, message.receive_count
