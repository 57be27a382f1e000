"""
RedisRQ: keys of a Redis module's own type, each with a list of what waits and one of what was
delivered. Its commands are all that can be seen of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from redis.exceptions import ResponseError

from rsmq.errors import SourceNotFound
from rsmq.migrate.ids_and_scores import digest
from rsmq.migrate.server import Server
from rsmq.migrate.sources.base import FIRST_PAGE, LOOK, SCAN, next_page
from rsmq.migrate.sources.item import Element, Found, Item, ItemState
from rsmq.operations.migration import TAKEN, Arrival, Destination, Told

#: The module's name for its type of key.
_TYPE = "RELIABLEQ"

# Zero would give one message again and again.
_IDLE_MS = 1


class RedisRQ:
    """
    Queues of the module RedisRQ.

    An id tells when a message was sent. Deliveries count as receives. What is taken is popped
    first, so that it waits among the delivered, and acknowledged when it has arrived: broken off in
    between, it is in flight at the source.
    """

    kind: ClassVar[str] = "redisrq"
    has_ids: ClassVar[bool] = True
    can_be_atomic: ClassVar[bool] = False

    def __init__(self, server: Server) -> None:
        """
        Make it.

        Args:
            server: where the module is loaded.
        """
        self.server = server
        self._page = FIRST_PAGE
        self._under_way: dict[bytes, bytes] = {}

    def queues(self) -> list[str]:
        """All keys of the module's type."""
        raw = self.server.raw
        try:
            found = set(raw.scan_iter(count=SCAN, _type=_TYPE))
        except ResponseError:  # a server before 6.0
            found = {key for key in raw.scan_iter(count=SCAN) if raw.type(key) == _TYPE.encode()}
        return sorted(key.decode("utf-8", "surrogateescape") for key in found)

    def look(self, queue: str) -> Found:
        """As ``Source`` has it."""
        info = self._info(queue)
        return Found(queue, {"ready": info[0], "delayed": 0, "in_flight": info[1]})

    def holds(self, queue: str, key: bytes) -> bool:
        """As ``Source`` has it."""
        return _key(queue) == key

    def number_in_flight(self, queue: str) -> int:
        """As ``Source`` has it."""
        return self._info(queue)[1]

    def newest_first(self, queue: str) -> Iterator[list[Item]]:
        """As ``Source`` has it."""
        for pending in (False, True):
            end = self._info(queue)[pending]
            while end > 0:
                start = max(0, end - self._page)
                yield self._inspect(queue, start, end - start, pending=pending)[::-1]
                end = start

    def next_items(
        self, queue: str, state: ItemState, number: int, skip: int
    ) -> tuple[Any, list[Item]]:
        """As ``Source`` has it: what it answers is popped, or recovered, already."""
        key = _key(queue)
        raw = self.server.raw
        if state == "ready":
            popped = raw.execute_command("RQ.POP", "COUNT", min(self._page, number), key) or []
            self._fit([body for _, _, body in popped])
            return queue, [self._item(queue, [id, body]) for _, id, body in popped]
        if state == "in_flight":
            known = {
                item.element.raw: item
                for item in self._inspect(queue, 0, min(self._page, number), pending=True)
            }
            if not known:
                return queue, []
            recovered = raw.execute_command("RQ.RECOVER", key, len(known), _IDLE_MS) or []
            return queue, [known.get(id) or self._item(queue, [id, body]) for id, body in recovered]
        return queue, []

    def take(self, place: Any, given: Sequence[tuple[Item, Arrival]], to: Destination) -> Told:
        """As ``Source`` has it: they were taken when they were read."""
        for item, arrival in given:
            self._under_way[arrival.digest] = item.element.raw
        return bytes([TAKEN]) * len(given)

    def wait(self, queue: str, seconds: float) -> None:
        """As ``Source`` has it: it looks again after a short while."""
        time.sleep(min(seconds, LOOK))

    def aside_key(self, queue: str) -> bytes:
        """As ``Source`` has it: nothing does."""
        return b""

    def aside(self, queue: str) -> Iterator[list[Arrival]]:
        """As ``Source`` has it: there is nothing but what was delivered."""
        return iter(())

    def may_have_arrived(self, queue: str) -> Iterator[list[Arrival]]:
        """As ``Source`` has it."""
        start = 0
        while found := self._inspect(queue, start, self._page, pending=True):
            arrivals = [Arrival(digest(self.kind, item.identity), None) for item in found]
            for item, arrival in zip(found, arrivals, strict=True):
                self._under_way[arrival.digest] = item.element.raw
            yield arrivals
            start += len(found)

    def forget(self, queue: str, arrived: Sequence[Arrival]) -> None:
        """As ``Source`` has it."""
        ids = [self._under_way.pop(each.digest) for each in arrived]
        if ids:
            self.server.raw.execute_command("RQ.ACK", _key(queue), *ids)

    def _info(self, queue: str) -> tuple[int, int]:
        try:
            reply = self.server.raw.execute_command("RQ.INFO", _key(queue))
        except ResponseError as error:
            if "WRONGTYPE" in str(error) or "unknown command" in str(error).lower():
                raise
            raise SourceNotFound(
                f"There is no RedisRQ queue {queue!r}",
                value=queue,
                hint="`rsmq migrate --from redisrq --dry-run` lists all.",
            ) from None
        told = dict(zip(reply[::2], reply[1::2], strict=True))
        return int(told[b"undelivered"]), int(told[b"delivered"])

    def _inspect(self, queue: str, start: int, number: int, *, pending: bool) -> list[Item]:
        which = ("PENDING",) if pending else ()
        found = self.server.raw.execute_command("RQ.INSPECT", _key(queue), *which, start, number)
        self._fit([entry[1] for entry in found])
        return [self._item(queue, entry) for entry in found]

    def _fit(self, bodies: list[bytes]) -> None:
        if bodies:
            self._page = next_page(self._page, len(bodies), sum(map(len, bodies)))

    def _item(self, queue: str, entry: Sequence[Any]) -> Item:
        """Of an id and a body; if it was delivered also when, how long ago and how often."""
        id, body, *delivered = entry
        ms, dash, _ = id.partition(b"-")
        delivered_ms, _, deliveries = delivered or (None, 0, 0)
        return Item(
            Element(id),
            "in_flight" if delivered else "ready",
            body,
            # Two queues may have the same id.
            identity=_key(queue) + b" " + id,
            sent_us=int(ms) * 1000 if dash and ms.isdigit() else None,
            due_ms=delivered_ms,
            receive_count=deliveries,
            first_received_ms=delivered_ms,
        )


def _key(queue: str) -> bytes:
    return queue.encode("utf-8", "surrogateescape")
