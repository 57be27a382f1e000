"""
The interface of sources, and what sources with keys in Redis have in common.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Protocol

from redis.exceptions import ResponseError

from rsmq.migrate.server import Server
from rsmq.migrate.sources.item import STATES, Element, Found, Item, ItemState, Place
from rsmq.operations.migration import (
    Arrival,
    Destination,
    Told,
    take_from_list,
    take_from_queue,
    take_from_sorted_set,
    unpacked,
)
from rsmq.wire.keys import copied_key

#: How many messages are read at once, and how many bytes of them at most, about. The first page
#: is a small one: it tells how large they are.
PAGE, PAGE_BYTES = 1000, 4_000_000
FIRST_PAGE = 16

#: Seconds between two looks at what can't be waited for.
LOOK = 0.1

#: How many keys SCAN looks at in a step.
SCAN = 1000


def next_page(page: int, number: int, size: int) -> int:
    """How many messages to read after a page of so many, which had so many bytes."""
    return max(1, min(PAGE, 4 * page, PAGE_BYTES * number // max(size, 1)))


class Source(Protocol):
    """
    A system from which messages come.

    Attributes:
        kind: the word for it on the command line.
        server: where it is.
        has_ids: whether its messages have something by which each is known again.
        can_be_atomic: whether a message can go from here to a queue of the same server in one
            step.
    """

    kind: ClassVar[str]
    server: Server
    has_ids: ClassVar[bool]
    can_be_atomic: ClassVar[bool]

    def queues(self) -> list[str]:
        """The names of its queues."""

    def look(self, queue: str) -> Found:
        """
        What a queue has.

        Raises:
            SourceNotFound: there is none of this name.
        """

    def holds(self, queue: str, key: bytes) -> bool:
        """Whether messages of a queue lie under a key."""

    def number_in_flight(self, queue: str) -> int:
        """How many someone handles, that stand apart from the others."""

    def newest_first(self, queue: str) -> Iterator[list[Item]]:
        """All messages from the last to the first, those in flight behind the others."""

    def next_items(
        self, queue: str, state: ItemState, number: int, skip: int
    ) -> tuple[Any, list[Item]]:
        """
        The next messages of a state to be taken, the first first.

        Args:
            queue: its name.
            state: which.
            number: how many at most.
            skip: how many to pass over, as they could not be taken.

        Returns:
            The place, for ``take``; and the messages, none at the end.
        """

    def take(self, place: Any, given: Sequence[tuple[Item, Arrival]], to: Destination) -> Told:
        """Take messages to where they go, in one step; an answer for each."""

    def aside_key(self, queue: str) -> bytes:
        """Where what is taken stands aside, on its way to another server."""

    def aside(self, queue: str) -> Iterator[list[Arrival]]:
        """What was taken before and is still on its way."""

    def wait(self, queue: str, seconds: float) -> None:
        """Wait until there may be something to take, at most so long."""

    def may_have_arrived(self, queue: str) -> Iterator[list[Arrival]]:
        """What is still here and may have arrived, of which the source can't tell."""

    def forget(self, queue: str, arrived: Sequence[Arrival]) -> None:
        """What was on its way has arrived."""


class Keyed(ABC):
    """
    A source whose messages lie in lists, sorted sets and hashes.

    Attributes:
        server: where it is.
    """

    kind: ClassVar[str]
    has_ids: ClassVar[bool] = True
    can_be_atomic: ClassVar[bool] = True

    def __init__(self, server: Server) -> None:
        self.server = server
        self._page = FIRST_PAGE
        self._can_look = True
        self._lists: dict[str, Place] = {}

    @abstractmethod
    def places(self, queue: str) -> list[Place]:
        """Where the messages of a queue lie: the ready ones first."""

    @abstractmethod
    def items(self, queue: str, place: Place, elements: list[Element]) -> list[Item]:
        """The messages of which these are the elements."""

    def counts(self, queue: str) -> dict[ItemState, int]:
        """How many messages there are of each state."""
        counts = dict.fromkeys(STATES, 0)
        for place in self.places(queue):
            counts[place.state] += self.number(place)
        return counts

    def holds(self, queue: str, key: bytes) -> bool:
        """As ``Source`` has it."""
        return any(place.key == key for place in self.places(queue))

    def number_in_flight(self, queue: str) -> int:
        """As ``Source`` has it."""
        return self.counts(queue)["in_flight"]

    def number(self, place: Place) -> int:
        """How many there are in a place."""
        raw = self.server.raw
        is_list = place.shape in {"left", "right"}
        return int(raw.llen(place.key) if is_list else raw.zcard(place.key))

    def newest_first(self, queue: str) -> Iterator[list[Item]]:
        """As ``Source`` has it."""
        for place in self.places(queue):
            # By their places from the end that consumers take from: what comes meanwhile moves
            # none of them, and where some go, those not read yet are still to be read.
            end = self.number(place)
            while end > 0:
                start = max(0, end - self._page)
                if elements := self._read(place, start, end - start):
                    yield self.items(queue, place, elements[::-1])
                end = start

    def next_items(
        self, queue: str, state: ItemState, number: int, skip: int
    ) -> tuple[Place | None, list[Item]]:
        """As ``Source`` has it."""
        for place in self.places(queue):
            if place.state == state and (elements := self._read(place, skip, number)):
                if place.shape in {"left", "right"}:
                    self._lists[queue] = place
                return place, self.items(queue, place, elements)
        return None, []

    def _read(self, place: Place, start: int, most: int) -> list[Element]:
        """A page of a place, from the end on that its consumers take from."""
        end = start + self.page(most) - 1
        raw = self.server.raw
        if place.shape in {"sorted", "queue"}:
            found = [
                Element(member, score)
                for member, score in raw.zrange(place.key, start, end, withscores=True)
            ]
        elif place.shape == "left":
            found = [Element(each) for each in raw.lrange(place.key, start, end)]
        else:
            found = [Element(each) for each in raw.lrange(place.key, -end - 1, -start - 1)[::-1]]
        self.fit(len(found), sum(len(element.raw) for element in found))
        return found

    def page(self, most: int) -> int:
        """How many messages to read now, at most so many."""
        return min(self._page, most)

    def fit(self, number: int, size: int) -> None:
        """Let the next page be of fewer messages where these are large, or of more again."""
        if number:
            self._page = next_page(self._page, number, size)

    def take(self, place: Place, given: Sequence[tuple[Item, Arrival]], to: Destination) -> Told:
        """As ``Source`` has it."""
        if place.shape == "queue":
            operation = take_from_queue(
                to,
                place.hash,
                place.key,
                copied_key(place.key),
                [(item.element.raw, item.element.score or 0.0, row) for item, row in given],
            )
        else:
            rows = [(item.element.raw, row) for item, row in given]
            if place.shape == "sorted":
                operation = take_from_sorted_set(to, place.key, rows)
            else:
                others = [key for item, _ in given for key in item.others]
                operation = take_from_list(to, place.key, place.shape, rows, others)
        return self.server.rsmq.run(operation)

    def wait(self, queue: str, seconds: float) -> None:
        """As ``Source`` has it: on a list at once, else after a short while."""
        place = self._list_of(queue)
        if place is not None and self._can_look:
            side = place.shape.upper()
            try:
                # From one end to the same end: it changes nothing, and waits for an element.
                self.server.raw.blmove(place.key, place.key, seconds, side, side)
            except ResponseError as error:
                if "unknown command" not in str(error).lower():
                    raise
                self._can_look = False  # a server before 6.2
        else:
            time.sleep(min(seconds, LOOK))

    def _list_of(self, queue: str) -> Place | None:
        """The list to which ready messages come: where some were, of several that there may be."""
        if queue in self._lists:
            return self._lists[queue]
        for place in self.places(queue):
            if place.shape in {"left", "right"}:
                return place
        return None

    def aside_key(self, queue: str) -> bytes:
        """As ``Source`` has it."""
        return self.server.rsmq.namespace.aside(f"{self.kind}:{queue}")

    def aside(self, queue: str) -> Iterator[list[Arrival]]:
        """As ``Source`` has it."""
        key = self.aside_key(queue)
        cursor = 0
        while True:
            cursor, found = self.server.raw.hscan(key, cursor, count=PAGE)
            if found:
                yield sorted(
                    (unpacked(id, value) for id, value in found.items()),
                    key=lambda arrival: arrival.row()[3:0:-2],
                )
            if cursor == 0:
                return

    def may_have_arrived(self, queue: str) -> Iterator[list[Arrival]]:
        """As ``Source`` has it: what was taken stands aside."""
        return iter(())

    def forget(self, queue: str, arrived: Sequence[Arrival]) -> None:
        """As ``Source`` has it."""
        if ids := [each.message.id for each in arrived if each.message is not None]:
            self.server.raw.hdel(self.aside_key(queue), *ids)

    def scan(self, pattern: bytes, kind: str | None = None) -> Iterator[bytes]:
        """The keys that match, each once or more often."""
        return iter(self.server.raw.scan_iter(match=pattern, count=SCAN, _type=kind))
