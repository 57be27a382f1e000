"""
The interface of sources, and the base class of sources with lists, sorted sets and hashes.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Protocol

from redis.exceptions import ResponseError

from rsmq.migrate.operations import (
    Destination,
    IncomingMessage,
    Outcomes,
    forget_set_aside,
    move_from_list,
    move_from_queue,
    move_from_sorted_set,
    parse_set_aside,
)
from rsmq.migrate.server import Server
from rsmq.migrate.sources.item import STATES, Element, Found, Item, ItemState, Place
from rsmq.operations.plain import parse_fields, parse_scores
from rsmq.wire.keys import TARGET_FIELD, extension_key

#: The largest number of messages of a page, and about how many bytes it may have.
PAGE_SIZE, PAGE_BYTES = 1000, 4_000_000

#: The number of messages of the first page. It is small, since the size of messages is unknown.
FIRST_PAGE_SIZE = 16

#: Seconds between two polls of a source that Redis can't wait for.
POLL_SECONDS = 0.1

#: Seconds within which a server answers after a command has blocked.
_REPLY_SECONDS = 5.0


def next_page_size(page_size: int, number: int, size: int) -> int:
    """
    Return the number of messages of the next page.

    Args:
        page_size: the number of messages that this page could have.
        number: the number of messages that it has.
        size: the bytes of its messages.
    """
    return max(1, min(PAGE_SIZE, 4 * page_size, PAGE_BYTES * number // max(size, 1)))


def score_and_id(message: IncomingMessage) -> tuple[int, str]:
    """Return the score and the id of a message that was set aside, by which queues are sorted."""
    assert message.message is not None  # noqa: S101 - only messages are set aside
    return message.message.visible_at_ms or 0, message.message.id


class Source(Protocol):
    """
    The interface of a system from which messages are migrated.

    Attributes:
        kind: the name of the system on the command line.
        server: the server of the source.
        has_ids: whether each message has an identity, by which later runs recognize it.
        can_be_atomic: whether a message can be moved to a queue of the same server in one atomic
            step.
    """

    kind: ClassVar[str]
    server: Server
    has_ids: ClassVar[bool]
    can_be_atomic: ClassVar[bool]

    def queues(self) -> list[str]:
        """Return the names of its queues."""

    def look(self, queue: str) -> Found:
        """
        Return the counts and attributes of a queue.

        Raises:
            SourceNotFound: there is no queue of this name.
        """

    def holds(self, queue: str, key: bytes) -> bool:
        """Return whether messages of a queue are stored under a key."""

    def number_in_flight(self, queue: str) -> int:
        """Return the number of messages in flight that are stored apart from the others."""

    def newest_first(self, queue: str) -> Iterator[list[Item]]:
        """Yield all messages in pages, from the last to the first; those in flight come last."""

    def next_items(
        self, queue: str, state: ItemState, number: int, skip: int
    ) -> tuple[Any, list[Item]]:
        """
        Return the next messages of a state, the first one first.

        Args:
            queue: the name of the queue.
            state: the state of the messages.
            number: the number of messages at most.
            skip: the number of messages to skip, which stay at the source.

        Returns:
            The place, for ``take``; and the messages, none at the end.
        """

    def take(
        self, place: Any, given: Sequence[tuple[Item, IncomingMessage]], to: Destination
    ) -> Outcomes:
        """
        Move messages to a destination in one atomic step. Return an outcome for each of them.

        Args:
            place: the place that ``next_items`` returned.
            given: the messages of the source, each with the message as the queue stores it.
            to: the destination.
        """

    def aside_key(self, queue: str) -> bytes:
        """Return the key of the hash of messages set aside; empty if the source has none."""

    def aside(self, queue: str) -> Iterator[list[IncomingMessage]]:
        """Yield the messages set aside, in pages; each page is sorted by score and id."""

    def wait(self, queue: str, seconds: float) -> None:
        """Wait until there may be messages to move, or until so many seconds have passed."""

    def may_have_arrived(self, queue: str) -> Iterator[list[IncomingMessage]]:
        """Yield messages that are still at the source, but that an earlier run may have added."""

    def forget(self, queue: str, arrived: Sequence[IncomingMessage]) -> None:
        """Remove messages from aside, or acknowledge them: the target queue has them."""


class KeyedSource(ABC):
    """
    The base class of sources whose messages are in lists, sorted sets and hashes.

    Attributes:
        server: the server of the source.
    """

    kind: ClassVar[str]
    has_ids: ClassVar[bool] = True
    can_be_atomic: ClassVar[bool] = True

    def __init__(self, server: Server) -> None:
        self.server = server
        self._page_size = FIRST_PAGE_SIZE
        self._can_block = True
        self._ready_lists: dict[str, Place] = {}

    @abstractmethod
    def places(self, queue: str) -> list[Place]:
        """Return the places of the messages of a queue: those of ready messages first."""

    @abstractmethod
    def items(self, queue: str, place: Place, elements: list[Element]) -> list[Item]:
        """Return the messages of these elements."""

    def counts(self, queue: str) -> dict[ItemState, int]:
        """Return the number of messages of each state."""
        counts = dict.fromkeys(STATES, 0)
        for place in self.places(queue):
            counts[place.state] += self.count(place)
        return counts

    def holds(self, queue: str, key: bytes) -> bool:
        """See ``Source``."""
        return any(place.key == key for place in self.places(queue))

    def number_in_flight(self, queue: str) -> int:
        """See ``Source``."""
        return self.counts(queue)["in_flight"]

    def count(self, place: Place) -> int:
        """Return the number of messages in a place."""
        is_list = place.shape in {"left", "right"}
        return int(self.server.call("LLEN" if is_list else "ZCARD", place.key))

    def newest_first(self, queue: str) -> Iterator[list[Item]]:
        """See ``Source``."""
        for place in self.places(queue):
            # Counted from the end where consumers receive. New messages, at the other end, change
            # no place; if some are removed, those that were not read yet are still read.
            end = self.count(place)
            while end > 0:
                start = max(0, end - self._page_size)
                if elements := self._read_page(place, start, end - start):
                    yield self.items(queue, place, elements[::-1])
                end = start

    def next_items(
        self, queue: str, state: ItemState, number: int, skip: int
    ) -> tuple[Place | None, list[Item]]:
        """See ``Source``."""
        for place in self.places(queue):
            if place.state == state and (elements := self._read_page(place, skip, number)):
                if place.shape in {"left", "right"}:
                    self._ready_lists[queue] = place
                return place, self.items(queue, place, elements)
        return None, []

    def _read_page(self, place: Place, start: int, limit: int) -> list[Element]:
        """Return a page of a place; positions count from the end where consumers receive."""
        end = start + self.page_size(limit) - 1
        call = self.server.call
        if place.shape in {"sorted", "queue"}:
            range = call("ZRANGE", place.key, start, end, "WITHSCORES", parse=parse_scores)
            found = [Element(member, score) for member, score in range]
        elif place.shape == "left":
            found = [Element(each) for each in call("LRANGE", place.key, start, end)]
        else:
            range = call("LRANGE", place.key, -end - 1, -start - 1)
            found = [Element(each) for each in range[::-1]]
        self.adjust_page_size(len(found), sum(len(element.raw) for element in found))
        return found

    def page_size(self, limit: int) -> int:
        """Return the number of messages to read next, at most the limit."""
        return min(self._page_size, limit)

    def adjust_page_size(self, number: int, size: int) -> None:
        """
        Adjust the number of messages of the next page to their size.

        Args:
            number: the number of messages of this page.
            size: their bytes.
        """
        if number:
            self._page_size = next_page_size(self._page_size, number, size)

    def take(
        self, place: Place, given: Sequence[tuple[Item, IncomingMessage]], to: Destination
    ) -> Outcomes:
        """See ``Source``."""
        if place.shape == "queue":
            operation = move_from_queue(
                to,
                place.hash,
                place.key,
                extension_key(place.key, "copied"),
                [(item.element.raw, item.element.score or 0.0, row) for item, row in given],
            )
        else:
            rows = [(item.element.raw, row) for item, row in given]
            if place.shape == "sorted":
                operation = move_from_sorted_set(to, place.key, rows)
            else:
                own_keys = [key for item, _ in given for key in item.others]
                operation = move_from_list(to, place.key, place.shape, rows, own_keys)
        return self.server.rsmq.run(operation)

    def wait(self, queue: str, seconds: float) -> None:
        """
        See ``Source``.

        Waits for an element of the list of ready messages, with BLMOVE. Without such a list, or
        before Redis 6.2, sleeps 0.1 seconds at most.
        """
        place = self._ready_list(queue)
        if place is not None and self._can_block:
            side = place.shape.upper()
            try:
                # Moves an element from one end to the same end: it only waits for one.
                self.server.call(
                    "BLMOVE", place.key, place.key, side, side, seconds,
                    reply_timeout=seconds + _REPLY_SECONDS,
                )  # fmt: skip
            except ResponseError as error:
                if "unknown command" not in str(error).lower():
                    raise
                self._can_block = False  # Redis before 6.2
        else:
            time.sleep(min(seconds, POLL_SECONDS))

    def _ready_list(self, queue: str) -> Place | None:
        """Return the list of ready messages: the one that had some, if there are several."""
        if queue in self._ready_lists:
            return self._ready_lists[queue]
        for place in self.places(queue):
            if place.shape in {"left", "right"}:
                return place
        return None

    def aside_key(self, queue: str) -> bytes:
        """See ``Source``."""
        return self.server.rsmq.namespace.aside(f"{self.kind}:{queue}")

    def aside(self, queue: str) -> Iterator[list[IncomingMessage]]:
        """See ``Source``."""
        key = self.aside_key(queue)
        cursor = 0
        while True:
            cursor, reply = self.server.call("HSCAN", key, cursor, "COUNT", PAGE_SIZE)
            found = parse_fields(reply)
            found.pop(TARGET_FIELD, None)
            if found:
                yield sorted(
                    (parse_set_aside(id, value) for id, value in found.items()),
                    key=score_and_id,
                )
            if int(cursor) == 0:
                return

    def may_have_arrived(self, queue: str) -> Iterator[list[IncomingMessage]]:
        """See ``Source``. Yields nothing: ``aside`` yields all removed messages."""
        return iter(())

    def forget(self, queue: str, arrived: Sequence[IncomingMessage]) -> None:
        """See ``Source``."""
        if ids := [each.message.id for each in arrived if each.message is not None]:
            self.server.rsmq.run(forget_set_aside(self.aside_key(queue), ids))

    def scan(self, pattern: bytes, kind: str | None = None) -> Iterator[bytes]:
        """Yield the keys that match a pattern, of one type or of any; each at least once."""
        return self.server.scan(pattern, kind)
