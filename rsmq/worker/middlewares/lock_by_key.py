"""
A middleware that lets one call run at a time for each key, over all workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rsmq.errors import InvalidFormat
from rsmq.wire.limits import check_duration
from rsmq.worker.delivery import Delivery
from rsmq.worker.middleware import check_function
from rsmq.worker.middlewares.decision_at_receive import (
    DecisionAtReceive,
    KeyOf,
    NotAdmitted,
    check_name,
)
from rsmq.worker.operations import lock_keys, unlock_keys

#: Messages whose key is locked are not received more often.
MIN_AFTER_SECONDS = 0.1


class LockByKey(DecisionAtReceive):
    """
    A middleware that lets one message be handled at a time for each key of a queue.

    A lock belongs to a receive of a message, and lasts as long as its visibility timeout, which the
    worker extends while the handler runs. It ends when the message is deleted, retried, deferred,
    moved or released, by any client. So a crash leaves no lock behind: it ends with the timeout, or
    with the takeover by the next worker of the name.

    A message whose key is locked is hidden for ``after`` seconds, which is not an attempt. It may
    be deferred so often and for so long as ``max_deferrals`` and ``max_deferred_seconds`` of its
    listener allow. Messages of a key may change their order.

    Locks are decided when messages are received, with one call to Redis for each receive, in the
    worker's own thread; so a message that waits for a slot has its lock already. A message that is
    retried or deferred costs one more call. It works for all kinds of handlers. If Redis does not
    answer, the messages are deferred. Consumers of other clients ignore the locks.

    A handler whose lease is lost may still run while the next one of its key begins.
    """

    def __init__(
        self,
        key: KeyOf,
        *,
        queues: Iterable[str] | None = None,
        after: float = 1.0,
        name: str | None = None,
    ) -> None:
        """
        Make it, for one worker; the locks of several workers are the same.

        Args:
            key: a function of the message that returns a str of at most 500 characters; None as a
                result locks nothing. An exception fails the message. It runs in the worker's own
                thread, so it must be quick.
            queues: the queues whose messages are locked; None is all queues of the worker. Each
                queue has locks of its own.
            after: seconds after which a message whose key is locked is received again, at least
                0.1.
            name: the name of these locks, by the rules of queues. Locks of different names have
                nothing in common, so a worker may have several for a queue: a message then needs
                all its locks. None is a name of its own.

        Raises:
            InvalidValue: after is out of range.
            InvalidFormat: key is not callable, or the name is invalid.
        """
        check_function("key", key)
        super().__init__(queues, key, check_duration("after", after, low=MIN_AFTER_SECONDS))
        self._name = check_name(name) or ""

    def claim(self, worker: Any) -> None:
        for each in worker._middleware:  # noqa: SLF001 - a part of the worker
            if each is not self and isinstance(each, LockByKey) and self._has_locks_of(each):
                raise InvalidFormat(
                    "middleware",
                    value=f"LockByKey(name={self._name or None!r})",
                    hint="Two of a worker have the same locks of a queue. Give one of them another "
                    "name=, or other queues=.",
                )
        super().claim(worker)

    def _has_locks_of(self, other: LockByKey) -> bool:
        if self._name != other._name:
            return False
        return self._queues is None or other._queues is None or bool(self._queues & other._queues)

    def _admit(
        self, queue: str, keyed: Sequence[tuple[Delivery, str]]
    ) -> Sequence[Exception | None]:
        client = self._worker.rsmq
        are_locked = client.run(
            lock_keys(
                client.namespace.queue(queue),
                [(each.id, each.receive_count, key) for each, key in keyed],
                name=self._name,
            )
        )
        return [
            None if is_locked else NotAdmitted("another message has the lock", after=self._after)
            for is_locked in are_locked
        ]

    def after_retry(self, message: Delivery, after: float, error: BaseException) -> None:  # noqa: ARG002 - a hook
        self._unlock(message, error)

    def after_defer(self, message: Delivery, after: float, error: BaseException) -> None:  # noqa: ARG002 - a hook
        self._unlock(message, error)

    def _unlock(self, message: Delivery, error: BaseException) -> None:
        if not self._covers(message.queue):
            return
        if isinstance(error, NotAdmitted) and error.by in (self, *self._deciding_before):
            return  # it got no lock
        key = self._key_of(message)
        if key is not None:
            client = self._worker.rsmq
            queue = client.namespace.queue(message.queue)
            receipt = message.id, message.receive_count, key
            client.run(unlock_keys(queue, [receipt], name=self._name))
