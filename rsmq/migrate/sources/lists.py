"""
The BRPOPLPUSH pattern: a list of bodies, and for each worker a list of its bodies in flight.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from rsmq.errors import NotPossible, SourceNotFound
from rsmq.migrate.server import Server
from rsmq.migrate.sources.base import KeyedSource
from rsmq.migrate.sources.item import Element, Found, Item, Place

# Lists of systems for which there is another source.
_OTHER_SYSTEMS = re.compile(rb"rfq:.*|__rq::.*|rqueue-.*", re.DOTALL)


class Lists(KeyedSource):
    """
    Lists of bodies, which are pushed at the left and received at the right.

    An element has no id and no time: messages get the time at which they are moved. An element of a
    processing list was received once.
    """

    kind: ClassVar[str] = "list"
    has_ids: ClassVar[bool] = False

    def __init__(self, server: Server, *, processing: Sequence[str] = ()) -> None:
        """
        Create the source.

        Args:
            server: the server of the lists.
            processing: patterns for the keys of the workers' processing lists, as SCAN matches them
                (``*`` is anything). They count as those of every list.
        """
        super().__init__(server)
        self._patterns = tuple(each.encode("utf-8", "surrogateescape") for each in processing)

    def queues(self) -> list[str]:
        """
        Return the keys of all lists that do not belong to another system.

        Processing lists are among them: their keys look like any others.
        """
        found = {key for key in self.scan(b"*", "list") if not _OTHER_SYSTEMS.fullmatch(key)}
        return sorted(key.decode("utf-8", "surrogateescape") for key in found)

    def look(self, queue: str) -> Found:
        """See ``Source``."""
        key = queue.encode("utf-8", "surrogateescape")
        kind = self.server.call("TYPE", key).decode()
        if kind not in {"list", "none"}:
            raise NotPossible(f"The key {queue!r} is not a list, but a {kind}")
        counts = self.counts(queue)
        if not any(counts.values()) and not self.server.call("EXISTS", self.aside_key(queue)):
            raise SourceNotFound(
                f"There is no list {queue!r} with messages in it",
                value=queue,
                hint="Redis keeps no empty lists. `rsmq migrate --from list --dry-run` shows all.",
            )
        processing = [
            place.key.decode("utf-8", "backslashreplace")
            for place in self.places(queue)
            if place.state == "in_flight"
        ]
        notes = (f"processing lists: {', '.join(processing)}",) if processing else ()
        return Found(queue, counts, notes=notes)

    def places(self, queue: str) -> list[Place]:
        """See ``KeyedSource``."""
        own = queue.encode("utf-8", "surrogateescape")
        processing = {key for each in self._patterns for key in self.scan(each, "list")} - {own}
        return [
            Place(own, "right", "ready"),
            *(Place(key, "right", "in_flight") for key in sorted(processing)),
        ]

    def items(self, queue: str, place: Place, elements: list[Element]) -> list[Item]:
        """See ``KeyedSource``."""
        if place.state == "ready":
            return [Item(each, "ready", each.raw) for each in elements]
        now_ms = self.server.now_us() // 1000
        return [
            Item(each, "in_flight", each.raw, receive_count=1, first_received_ms=now_ms)
            for each in elements
        ]
