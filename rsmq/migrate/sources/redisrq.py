"""
RedisRQ, a Redis module: queues are keys of its own type, each with a list of messages that wait and
one of messages that were delivered. They are read and changed by its commands only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

from redis.exceptions import ResponseError

from rsmq.errors import SourceNotFound
from rsmq.migrate.ids_and_scores import make_digest
from rsmq.migrate.operations import MOVED, Destination, IncomingMessage, Outcomes
from rsmq.migrate.server import Server
from rsmq.migrate.sources.base import FIRST_PAGE_SIZE, POLL_SECONDS, next_page_size
from rsmq.migrate.sources.item import Element, Found, Item, ItemState
from rsmq.operations.operation import RetryClass

#: The module's name for its type of key.
_TYPE = "RELIABLEQ"

# With zero, RQ.RECOVER would return the same message again and again.
_IDLE_MS = 1


class RedisRQ:
    """
    Queues of the module RedisRQ.

    An id contains the time when the message was sent. Deliveries count as receives. A message is
    popped first, which puts it among the delivered ones. It is acknowledged when the target queue
    has it. If a run breaks off in between, the message is in flight at the source.
    """

    kind: ClassVar[str] = "redisrq"
    has_ids: ClassVar[bool] = True
    can_be_atomic: ClassVar[bool] = False

    def __init__(self, server: Server) -> None:
        """
        Create the source.

        Args:
            server: the server where the module is loaded.
        """
        self.server = server
        self._page_size = FIRST_PAGE_SIZE
        self._unacknowledged: dict[bytes, bytes] = {}

    def queues(self) -> list[str]:
        """Return all keys of the module's type."""
        server = self.server
        try:
            found = set(server.scan(kind=_TYPE))
        except ResponseError:  # Redis before 6.0
            found = {key for key in server.scan() if server.call("TYPE", key) == _TYPE.encode()}
        return sorted(key.decode("utf-8", "surrogateescape") for key in found)

    def look(self, queue: str) -> Found:
        """See ``Source``."""
        info = self._info(queue)
        return Found(queue, {"ready": info[0], "delayed": 0, "in_flight": info[1]})

    def holds(self, queue: str, key: bytes) -> bool:
        """See ``Source``."""
        return _key(queue) == key

    def number_in_flight(self, queue: str) -> int:
        """See ``Source``."""
        return self._info(queue)[1]

    def newest_first(self, queue: str) -> Iterator[list[Item]]:
        """See ``Source``."""
        for pending in (False, True):
            end = self._info(queue)[pending]
            while end > 0:
                start = max(0, end - self._page_size)
                yield self._inspect(queue, start, end - start, pending=pending)[::-1]
                end = start

    def next_items(
        self, queue: str, state: ItemState, number: int, skip: int
    ) -> tuple[Any, list[Item]]:
        """See ``Source``. The messages that it returns are popped or recovered already."""
        key = _key(queue)
        call = partial(self.server.call, retry=RetryClass.ONCE)  # a later step recovers messages
        if state == "ready":
            popped = call("RQ.POP", "COUNT", min(self._page_size, number), key, key=key) or []
            self._adjust_page_size([body for _, _, body in popped])
            return queue, [self._item(queue, [id, body]) for _, id, body in popped]
        if state == "in_flight":
            pending_items = {
                item.element.raw: item
                for item in self._inspect(queue, 0, min(self._page_size, number), pending=True)
            }
            if not pending_items:
                return queue, []
            recovered = call("RQ.RECOVER", key, len(pending_items), _IDLE_MS) or []
            return queue, [
                pending_items.get(id) or self._item(queue, [id, body]) for id, body in recovered
            ]
        return queue, []

    def take(
        self, place: Any, given: Sequence[tuple[Item, IncomingMessage]], to: Destination
    ) -> Outcomes:
        """See ``Source``. The messages were popped or recovered when they were read."""
        for item, message in given:
            self._unacknowledged[message.digest] = item.element.raw
        return bytes([MOVED]) * len(given)

    def wait(self, queue: str, seconds: float) -> None:
        """See ``Source``. Sleeps 0.1 seconds at most."""
        time.sleep(min(seconds, POLL_SECONDS))

    def aside_key(self, queue: str) -> bytes:
        """See ``Source``. There is none: delivered messages are kept by the module."""
        return b""

    def aside(self, queue: str) -> Iterator[list[IncomingMessage]]:
        """See ``Source``. Yields nothing: delivered messages are kept by the module."""
        return iter(())

    def may_have_arrived(self, queue: str) -> Iterator[list[IncomingMessage]]:
        """See ``Source``. Yields the delivered messages."""
        start = 0
        while found := self._inspect(queue, start, self._page_size, pending=True):
            messages = [
                IncomingMessage(make_digest(self.kind, item.identity), None) for item in found
            ]
            for item, message in zip(found, messages, strict=True):
                self._unacknowledged[message.digest] = item.element.raw
            yield messages
            start += len(found)

    def forget(self, queue: str, arrived: Sequence[IncomingMessage]) -> None:
        """See ``Source``. Acknowledges the messages."""
        ids = [self._unacknowledged.pop(each.digest) for each in arrived]
        if ids:
            self.server.call("RQ.ACK", _key(queue), *ids)

    def _info(self, queue: str) -> tuple[int, int]:
        try:
            reply = self.server.call("RQ.INFO", _key(queue))
        except ResponseError as error:
            if "WRONGTYPE" in str(error) or "unknown command" in str(error).lower():
                raise
            raise SourceNotFound(
                f"There is no RedisRQ queue {queue!r}",
                value=queue,
                hint="`rsmq migrate --from redisrq --dry-run`, with the same options, lists all.",
            ) from None
        fields = dict(zip(reply[::2], reply[1::2], strict=True))
        return int(fields[b"undelivered"]), int(fields[b"delivered"])

    def _inspect(self, queue: str, start: int, number: int, *, pending: bool) -> list[Item]:
        which = ("PENDING",) if pending else ()
        found = self.server.call("RQ.INSPECT", _key(queue), *which, start, number)
        self._adjust_page_size([entry[1] for entry in found])
        return [self._item(queue, entry) for entry in found]

    def _adjust_page_size(self, bodies: list[bytes]) -> None:
        if bodies:
            self._page_size = next_page_size(self._page_size, len(bodies), sum(map(len, bodies)))

    def _item(self, queue: str, entry: Sequence[Any]) -> Item:
        """
        Return the message of an entry.

        An entry is an id and a body; of a delivered message also when it was delivered, how long
        ago and how often.
        """
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
