"""
rfq: topics, each with a list of ids that wait, ``rfq:{topic}:backlog``, a list of ids in flight,
``rfq:{topic}:nextlog``, and for each message a hash of texts, ``rfq:{topic}:message:{id}``.
"""

from __future__ import annotations

import json
import re
import secrets
from typing import ClassVar
from uuid import UUID

from rsmq.errors import SourceNotFound
from rsmq.migrate.sources.base import KeyedSource
from rsmq.migrate.sources.item import Element, Found, Item, Place
from rsmq.operations.plain import parse_fields

_TOPIC = re.compile(rb"rfq:(.+):(?:backlog|nextlog)", re.DOTALL)

# From the beginning of the Gregorian calendar to that of Unix time, in units of 100 ns.
_GREGORIAN_OFFSET = 0x01B21DD213814000

# 2000 and 2085: an id with another time is not a uuid of rfq.
_EARLIEST_US, _LATEST_US = 946_684_800_000_000, 36**10 - 1

_TIME_BASED = 1
_UUID_LENGTH = 32

_encode_json = json.JSONEncoder(ensure_ascii=False).encode


class RFQ(KeyedSource):
    """
    Topics of rfq.

    The body of a message is a JSON object of the texts in its hash. Bytes that are not UTF-8 are
    escaped as Python's surrogates, and noted. A message was sent at the time in its uuid. rfq does
    not count receives: a message in flight was received once.
    """

    kind: ClassVar[str] = "rfq"

    def queues(self) -> list[str]:
        """Return the topics that have messages."""
        found = {
            match[1].decode("utf-8", "surrogateescape")
            for key in self.scan(b"rfq:*log", "list")
            if (match := _TOPIC.fullmatch(key))
        }
        return sorted(found)

    def look(self, queue: str) -> Found:
        """See ``Source``."""
        counts = self.counts(queue)
        if not any(counts.values()) and not self.server.call("EXISTS", self.aside_key(queue)):
            raise SourceNotFound(
                f"There is no message in the rfq topic {queue!r}",
                value=queue,
                hint="rfq keeps no empty topics. `rsmq migrate --from rfq --dry-run` lists all.",
            )
        return Found(queue, counts)

    def places(self, queue: str) -> list[Place]:
        """See ``KeyedSource``."""
        prefix = f"rfq:{queue}".encode("utf-8", "surrogateescape")
        return [
            Place(prefix + b":backlog", "right", "ready"),
            Place(prefix + b":nextlog", "right", "in_flight"),
        ]

    def items(self, queue: str, place: Place, elements: list[Element]) -> list[Item]:
        """See ``KeyedSource``."""
        prefix = f"rfq:{queue}:message:".encode("utf-8", "surrogateescape")
        replies = self.server.pipelined([("HGETALL", prefix + each.raw) for each in elements])
        hashes = [parse_fields(reply) for reply in replies]
        self.adjust_page_size(
            len(elements), sum(len(v) for found in hashes for v in found.values())
        )
        now_ms = self.server.now_us() // 1000 if place.state == "in_flight" else None
        return [
            self._item(place, element, found, prefix + element.raw, now_ms)
            for element, found in zip(elements, hashes, strict=True)
        ]

    def _item(
        self,
        place: Place,
        element: Element,
        found: dict[bytes, bytes],
        key: bytes,
        now_ms: int | None,
    ) -> Item:
        body, notes = _make_body(found)
        return Item(
            element,
            place.state,
            body,
            identity=element.raw,
            sent_us=parse_published_us(element.raw),
            receive_count=0 if now_ms is None else 1,
            first_received_ms=now_ms,
            others=(key,),
            notes=notes,
        )


def _make_body(found: dict[bytes, bytes]) -> tuple[bytes | None, tuple[str, ...]]:
    if not found:
        return None, ("an id without its hash: there is no message",)
    try:
        texts = {name.decode(): value.decode() for name, value in found.items()}
        return _encode_json(texts).encode(), ()
    except UnicodeDecodeError:
        texts = {
            name.decode("utf-8", "surrogateescape"): value.decode("utf-8", "surrogateescape")
            for name, value in found.items()
        }
        return json.dumps(texts).encode(), (
            "bytes that are no UTF-8 became \\udcXX in the JSON (Python's surrogateescape)",
        )


def parse_published_us(id: bytes) -> int | None:
    """
    Return when a message was published, in Unix microseconds; None if unknown.

    Args:
        id: a uuid of version 1, 32 hexadecimal digits; any other id has no time.
    """
    if len(id) != _UUID_LENGTH or id[12:13] != b"1":
        return None
    try:
        us = (int(id[13:16] + id[8:12] + id[:8], 16) - _GREGORIAN_OFFSET) // 10
    except ValueError:
        return None
    return us if _EARLIEST_US <= us <= _LATEST_US else None


def make_uuid(us: int) -> UUID:
    """Return a new uuid of version 1 with this time, in Unix microseconds, and a random node."""
    time = us * 10 + _GREGORIAN_OFFSET
    random = secrets.randbits(62) | 1 << 40  # the multicast bit: no network card has such a node
    return UUID(
        fields=(
            time & 0xFFFFFFFF,
            time >> 32 & 0xFFFF,
            time >> 48 & 0x0FFF,
            random >> 56 & 0x3F,
            random >> 48 & 0xFF,
            random & 0xFFFFFFFFFFFF,
        ),
        version=_TIME_BASED,
    )
