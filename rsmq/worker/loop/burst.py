"""
A run of a worker until its queues are empty.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from redis import exceptions as redis_errors

from rsmq._sync.client import RSMQ
from rsmq.errors import NotEmptyInTime, RSMQError
from rsmq.worker.delivery import Delivery
from rsmq.worker.middleware import Middleware
from rsmq.worker.operations import list_in_flight
from rsmq.worker.outcome import DeadLetter, Retry

#: Seconds between two checks.
POLL_SECONDS = 0.05


class Burst(Middleware):
    """
    A middleware that knows the retries that a worker has scheduled, and its first error.

    Attributes:
        error: the first exception of a handler whose outcome was written; None if there is none.
            Retry, Defer, Discard and DeadLetter are no errors.
        stops_at_error: whether the run ends at the first error.
    """

    def __init__(self, timeout: float | None, *, stops_at_error: bool) -> None:
        """
        Make one.

        Args:
            timeout: seconds from now after which ``is_done`` raises an error; None is never.
            stops_at_error: whether the run ends at the first error.
        """
        self.stops_at_error = stops_at_error
        self.error: BaseException | None = None
        self._timeout = timeout
        self._deadline = None if timeout is None else time.monotonic() + timeout
        #: Scheduled retries: queue, id and receive count. Two threads change it, so the one that
        #: removes an entry which is over must not remove the next one of the same message.
        self._retries: set[tuple[str, str, int]] = set()
        #: How often a retry was scheduled, and messages were received.
        self._scheduled = 0
        self._receives = 0

    def after_receive(self, queue: str, messages: Sequence[Delivery]) -> None:
        self._receives += 1
        for message in messages:
            self._retries.discard((queue, message.id, message.receive_count - 1))

    def before_retry(self, message: Delivery, after: float, error: BaseException) -> None:
        # Not after it: between the write and its reply the message is neither due nor in flight.
        self._retries.add((message.queue, message.id, message.receive_count))
        self._scheduled += 1

    def before_defer(self, message: Delivery, after: float, error: BaseException) -> None:
        self.before_retry(message, after, error)

    def on_failure(self, error: BaseException, message: Delivery, is_final: bool) -> None:  # noqa: FBT001 - a hook
        if self.error is None and not isinstance(error, Retry | DeadLetter):
            self.error = error

    def is_done(self, rsmq: RSMQ, name: str, queues: Sequence[str]) -> bool:
        """
        Return whether no message is due, in flight at the worker, or to be retried by it.

        A queue that can't be read counts as empty.

        Raises:
            NotEmptyInTime: the time is over.
        """
        scheduled, was_waiting = self._scheduled, bool(self._retries)
        receives = self._receives
        try:
            # First what is in flight, whose handler may send messages to a queue that was read
            # before. Then a message that is received after the second check is seen by the third,
            # or its handler has ended meanwhile: then it was received since the first.
            rest = (
                _describe_in_flight(rsmq, name)
                or "; ".join(filter(None, (_describe_due(rsmq, queue) for queue in queues)))
                or _describe_in_flight(rsmq, name)
                or self._describe_retries(rsmq, queues)
            )
        except (redis_errors.ConnectionError, redis_errors.TimeoutError) as error:
            rest = f"Redis is away, {error}"
        if not rest and (was_waiting or scheduled != self._scheduled):
            # The worker may have received the message between two checks, so that no check saw it.
            rest = "a message waited for its next attempt"
        if not rest and receives != self._receives:
            rest = "a message was received"
        if rest and self._deadline is not None and time.monotonic() > self._deadline:
            raise NotEmptyInTime(self._timeout, rest)
        return not rest

    def _describe_retries(self, rsmq: RSMQ, queues: Sequence[str]) -> str:
        for each in self._retries.copy():
            queue, id, receive_count = each
            if queue not in queues:  # its listener was stopped meanwhile
                continue
            message = None
            with suppress(RSMQError, redis_errors.ResponseError):
                message = rsmq.get_message(queue, id)
            if message is not None and message.receive_count == receive_count:
                return f"{queue}: {id} waits for its next attempt"
            self._retries.discard(each)  # it was received again, or deleted
        return ""


def _describe_due(rsmq: RSMQ, queue: str) -> str:
    try:
        attributes = rsmq.get_queue_attributes(queue)
    except (RSMQError, redis_errors.ResponseError):
        return ""
    if not attributes.visible_messages:
        return ""
    return f"{queue}: {attributes.visible_messages} due, {attributes.hidden_messages} hidden"


def _describe_in_flight(rsmq: RSMQ, name: str) -> str:
    in_flight = rsmq.run_steps(list_in_flight(rsmq.namespace, name))
    return "; ".join(
        f"{queue}: {len(receipts)} in flight" for queue, receipts in in_flight.items() if receipts
    )
