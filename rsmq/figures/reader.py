"""
A reader of the figures of queues.

A round reads the attributes of queues, in O(log n) time at most for each. It takes a round trip for
each fifty queues, and one more for each 1,500 if the queues are listed. Nothing is written. A queue
that can't be read does not hide the others.

The number of messages in flight and the oldest message need a walk through the queue. A walk is
made at most every five seconds, and only through queues of up to 10,000 messages. For longer queues
they are estimated: the states of hidden messages by a sample of 400, which is taken as often, and
the first message that is due counts as the oldest.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from redis.exceptions import ResponseError

from rsmq._sync.client import RSMQ
from rsmq.errors import QueueNotFound, RSMQError
from rsmq.figures.facts import ATTRIBUTES
from rsmq.figures.operations import MAX_WALKED_MESSAGES, HiddenCounts, sample_hidden
from rsmq.figures.reading import read_queues
from rsmq.model import QueueAttributes
from rsmq.operations.queues import get_queue_attributes, list_queues_in_steps
from rsmq.transport.retry import is_limited_to_keys
from rsmq.wire.names import is_pattern

#: Seconds for which the result of a walk is reused.
FRESH_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class QueueGauges:
    """
    The figures of one queue, besides its attributes.

    Attributes:
        hidden: the numbers of hidden messages by state.
        oldest_seconds: seconds since the oldest message was sent; None without a message.
        due_seconds: seconds since the message that is received next became visible, at the time of
            the walk; None without a visible message.
        is_estimate: whether hidden and oldest_seconds are estimates.
    """

    hidden: HiddenCounts
    oldest_seconds: float | None
    due_seconds: float | None
    is_estimate: bool


@dataclass(frozen=True, slots=True)
class _Walk:
    """The result of a walk at a monotonic time, or the estimate that replaces a walk."""

    walked_at: float
    hidden: HiddenCounts
    oldest_ms: float | None = None
    due_seconds: float | None = None
    is_estimate: bool = False


class QueueReader:
    """The queues of a namespace, as they were at the begin of a round."""

    def __init__(self, rsmq: RSMQ[Any]) -> None:
        self._rsmq = rsmq
        self._listed: list[str] = []
        #: The attributes of each queue of this round, or why it could not be read.
        self._read: dict[str, QueueAttributes | Exception] = {}
        self._walks: dict[str, _Walk] = {}

    def begin_round(self, names: Iterable[str]) -> list[str]:
        """
        Begin a round, and return the queues that are named, and those that match a pattern.

        Args:
            names: queues that are read even if they are not listed, and patterns. The listed queues
                are read too if there is a pattern, or no name.

        Raises:
            RedisError, OSError: Redis can't be reached.
        """
        all_names = list(names)
        patterns = [name for name in all_names if is_pattern(name)]
        named = [name for name in all_names if name not in patterns]
        self._listed, self._read = [], {}
        if patterns or not named:
            self._listed = self._rsmq.run_steps(list_queues_in_steps(self._rsmq.namespace))
        read = list(dict.fromkeys([*self._listed, *named]))
        for start in range(0, len(read), ATTRIBUTES.step):
            self._describe(read[start : start + ATTRIBUTES.step])
        matching = (
            name for name in self._listed if any(fnmatchcase(name, each) for each in patterns)
        )
        return list(dict.fromkeys([*named, *matching]))

    def _describe(self, names: list[str]) -> None:
        """Read queues; of those that can't be read, note the errors."""
        namespace = self._rsmq.namespace
        try:
            keys = [namespace.queue(name) for name in names]
            found = self._rsmq.run(read_queues(namespace, keys, (ATTRIBUTES,)))
        except (ResponseError, RSMQError) as error:
            if not _concerns_queues(error):
                raise
            found = {}
        for name in names:
            try:
                self._read[name] = (
                    found[name][ATTRIBUTES]
                    if name in found
                    else self._rsmq.run(get_queue_attributes(namespace, name))
                )
            except (ResponseError, RSMQError) as error:
                if not _concerns_queues(error):
                    raise
                self._read[name] = error

    def list_queues(self) -> Sequence[str]:
        """Return the names of the listed queues."""
        return self._listed

    def get_queue_attributes(self, queue: str) -> QueueAttributes:
        """
        Return the attributes of a queue in this round.

        Raises:
            QueueNotFound: the queue does not exist.
            RSMQError, ResponseError: it can't be read.
        """
        if queue not in self._read:  # it was neither listed nor named
            self._describe([queue])
        found = self._read[queue]
        if isinstance(found, Exception):
            raise found
        return found

    def read(self, queue: str, attributes: QueueAttributes) -> QueueGauges:
        """
        Return the figures of a queue of this round.

        Args:
            queue: its name.
            attributes: its attributes, as they were just read.
        """
        walk = self._walk(queue, attributes)
        oldest = None if walk.oldest_ms is None else max(time.time() - walk.oldest_ms / 1000, 0)
        return QueueGauges(walk.hidden, oldest, walk.due_seconds, walk.is_estimate)

    def _walk(self, queue: str, attributes: QueueAttributes) -> _Walk:
        now = time.monotonic()
        if attributes.messages == 0:
            return _Walk(now, HiddenCounts())
        walk = self._walks.get(queue)
        if (
            walk is None
            or now - walk.walked_at >= FRESH_SECONDS
            or walk.is_estimate != _is_long(attributes)
        ):
            walk = self._walks[queue] = self._new_walk(queue, attributes, now)
        return walk

    def _new_walk(self, queue: str, attributes: QueueAttributes, now: float) -> _Walk:
        try:
            if _is_long(attributes):
                first = next(iter(self._rsmq.peek_messages(queue, 0, 1)), None)
                return _Walk(
                    now,
                    self._rsmq.run(sample_hidden(self._rsmq.namespace.queue(queue))),
                    None if first is None else first.sent_ms,
                    _seconds_since(None if first is None else first.visible_at_ms),
                    is_estimate=True,
                )
            counts = self._rsmq.count_messages(queue)
        except QueueNotFound:  # deleted since its attributes were read
            return _Walk(now, HiddenCounts())
        hidden = HiddenCounts(
            counts.in_flight, counts.retrying, counts.delayed, held_back=counts.held_back
        )
        return _Walk(now, hidden, counts.oldest_sent_ms, _seconds_since(counts.due_since_ms))


def _seconds_since(ms: float | None) -> float | None:
    """Return the seconds since a Unix ms; None if it is in the future."""
    seconds = -1.0 if ms is None else time.time() - ms / 1000
    return seconds if seconds >= 0 else None


def _is_long(attributes: QueueAttributes) -> bool:
    return attributes.messages > MAX_WALKED_MESSAGES


def _concerns_queues(error: Exception) -> bool:
    """Return whether an error is one of single queues: a wrong type, or no right for a key."""
    return isinstance(error, RSMQError) or is_limited_to_keys(error)
