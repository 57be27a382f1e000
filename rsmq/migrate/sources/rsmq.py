"""
RSMQ queues in another namespace, database or server, also those of other clients.
"""

from __future__ import annotations

import re
from typing import ClassVar

from redis.exceptions import ResponseError

from rsmq.codecs.stored import leave_namespace
from rsmq.errors import SourceNotFound
from rsmq.figures.left_behind import LeftBehind
from rsmq.migrate.server import Server
from rsmq.migrate.sources.base import KeyedSource
from rsmq.migrate.sources.item import STATES, Element, Found, Item, ItemState, Place
from rsmq.model import QueueAttributes
from rsmq.operations.copying import find_unfit, fit_settings, read_fields, read_settings
from rsmq.operations.plain import parse_scores
from rsmq.operations.reading import read_records
from rsmq.vocabulary.queues import ATTRIBUTE_FIELDS, REQUIRED_ATTRIBUTES, read_attributes
from rsmq.vocabulary.stored import MESSAGE_RECORDS, Carrier
from rsmq.wire.fields import MESSAGE_SUFFIXES
from rsmq.wire.ids import is_reserved_id, parse_sent_us
from rsmq.wire.keys import PrefixKeys, extension_key, job_key
from rsmq.wire.names import decode_name, encode_name
from rsmq.wire.stored import parse_integer, parse_number

# The ids that Node can delete; messages with other ids get new ones.
_NODE_ID = re.compile(r"[a-zA-Z0-9:]{32}")

# Some clients store an id first and its body after it. An id without a body may belong to such a
# send if it became visible less than so long ago, or is hidden.
_INCOMPLETE_SEND_MS = 10_000

# A vt of at least so many seconds is probably one in ms.
_IMPLAUSIBLE_VT_SECONDS = 10_000

_GHOST_NOTE = "a ghost: an id without a body"
_RESERVED_NOTE = "an id that is the name of an attribute: no message"

# Scores of clients with another unit: seconds below, microseconds above. A score that is smaller
# still is not a time: it puts a message at the front of its queue.
_FRONT_BELOW, _SECONDS_BELOW, _MICROSECONDS_ABOVE = 1e8, 1e11, 1e15

# Replaces an infinite score; the largest integer below which all integers are exact.
_LARGEST_SCORE = 2.0**53


class RsmqQueues(KeyedSource):
    """
    RSMQ queues, also those of PyRSMQ, old Rust clients and Go clients.

    Messages keep ids that Node can delete; others get new ids. Scores in seconds or microseconds
    become milliseconds. A vt or delay with a fraction is rounded up to whole seconds.
    """

    kind: ClassVar[str] = "rsmq"

    def __init__(self, server: Server, *, colon: bool = True, milliseconds: bool = False) -> None:
        """
        Create the source.

        Args:
            server: the server and the namespace of the queues.
            colon: False for rsmq_async before 10.0, whose keys have no colon after the namespace.
            milliseconds: True for rsmq_async 8 to 18, which stores vt and delay in ms.
        """
        super().__init__(server)
        name = encode_name(server.rsmq.namespace.name)
        self._keys = PrefixKeys(name + (b":" if colon else b""))
        self._milliseconds = milliseconds

    def queues(self) -> list[str]:
        """Return all queues that are listed or have keys, if they have their attributes."""
        found = set(self.server.call("SMEMBERS", self._keys.index))
        for key in self.scan(self._keys.hash_pattern, "hash"):
            name = self._keys.name_of_hash(key)
            if name:
                found.add(name)
        names = sorted(decode_name(name) for name in found)
        # Other systems may have keys of another type under these names.
        kinds = self.server.pipelined([("TYPE", self._keys.hash(name)) for name in names])
        names = [name for name, kind in zip(names, kinds, strict=True) if kind == b"hash"]
        attributes = self.server.pipelined(
            [("HMGET", self._keys.hash(name), "vt", "delay", "maxsize") for name in names]
        )
        return [name for name, stored in zip(names, attributes, strict=True) if None not in stored]

    def look(self, queue: str) -> Found:
        """See ``Source``."""
        stored = self._read_attributes(queue)
        if stored is None and self.server.call("EXISTS", self.aside_key(queue)):
            return Found(queue, dict.fromkeys(STATES, 0))
        if stored is None:
            raise SourceNotFound(
                f"There is no RSMQ queue {queue!r} in the namespace "
                f"{self.server.rsmq.namespace.name!r}",
                value=queue,
                hint="`rsmq migrate --from rsmq --dry-run`, with the same options, lists all.",
            )
        settings = read_settings(stored)
        notes = [
            f"its {each.name} of {each.wanted:g} is not a value of RSMQ: {each.has}"
            for each in find_unfit(settings)
        ]
        vt = stored.vt
        if not self._milliseconds and vt >= _IMPLAUSIBLE_VT_SECONDS and vt % 1000 == 0:
            notes.append(
                f"its vt of {vt:g} s may be the ms of rsmq_async 8 to 18: then say --milliseconds"
            )
        keys = self._keys.zset(queue), self._keys.hash(queue)
        left = LeftBehind(self.server.rsmq, Carrier.MIGRATE, *keys)
        notes += left.reasons.values()
        fields = self.server.rsmq.run(read_fields(self._keys.hash(queue)))
        counts, fitted = self.counts(queue), fit_settings(settings)
        return Found(queue, counts, fitted, tuple(notes), stored, fields)

    def _read_attributes(self, queue: str) -> QueueAttributes | None:
        values = self.server.call("HMGET", self._keys.hash(queue), *ATTRIBUTE_FIELDS)
        stored = dict(zip(ATTRIBUTE_FIELDS, values, strict=True))
        if any(stored[each.field] is None for each in REQUIRED_ATTRIBUTES):
            return None
        attributes = read_attributes(stored)
        if self._milliseconds:
            attributes |= {"vt": attributes["vt"] / 1000, "delay": attributes["delay"] / 1000}
        counts = self.counts(queue)
        return QueueAttributes(
            **attributes,
            messages=sum(counts.values()),
            hidden_messages=counts["delayed"],
            visible_messages=counts["ready"],
            next_due_ms=None,
        )

    def counts(self, queue: str) -> dict[ItemState, int]:
        """See ``KeyedSource``. Hidden messages count as delayed, also those in flight."""
        counts = dict.fromkeys(STATES, 0)
        (place,) = self.places(queue)
        now_ms = self.server.now_us() // 1000
        counts["ready"] = int(self.server.call("ZCOUNT", place.key, "-inf", now_ms))
        counts["delayed"] = max(0, int(self.server.call("ZCARD", place.key)) - counts["ready"])
        return counts

    def places(self, queue: str) -> list[Place]:
        """See ``KeyedSource``."""
        return [Place(self._keys.zset(queue), "queue", "ready", self._keys.hash(queue))]

    def next_items(
        self, queue: str, state: ItemState, number: int, skip: int
    ) -> tuple[Place | None, list[Item]]:
        """See ``Source``. Hidden messages count as delayed, but have their own state once read."""
        (place,) = self.places(queue)
        if state == "in_flight":
            return None, []
        now_ms = self.server.now_us() // 1000
        low, high = ("-inf", now_ms) if state == "ready" else (f"({now_ms}", "+inf")
        found = self.server.call(
            "ZRANGEBYSCORE", place.key, low, high, "WITHSCORES", "LIMIT", skip,
            self.page_size(number), parse=parse_scores,
        )  # fmt: skip
        elements = [Element(member, score) for member, score in found]
        return place, self.items(queue, place, elements)

    def wait(self, queue: str, seconds: float) -> None:
        """
        See ``Source``.

        Wakes up when a message is sent or becomes due. A queue whose keys have no colon after the
        namespace is polled.
        """
        key = self.places(queue)[0].key
        if key == self.server.rsmq.namespace.queue(queue).zset:
            self.server.rsmq.watcher.wait(lambda: True, lambda _: None, False, [key], seconds)
        else:
            super().wait(queue, seconds)

    def items(self, queue: str, place: Place, elements: list[Element]) -> list[Item]:
        """See ``KeyedSource``."""
        fields = [
            field
            for each in elements
            for field in (each.raw, *(each.raw + suffix for suffix in MESSAGE_SUFFIXES))
        ]
        stored = self.server.call("HMGET", place.hash, *fields) if fields else []
        self.adjust_page_size(len(elements), sum(map(len, filter(None, stored))))
        records, due = self._records(place, elements)
        jobs = self._jobs(place, elements)
        now_ms = self.server.now_us() // 1000
        return [
            self._item(
                each,
                stored[at : at + 4],
                now_ms,
                records.get(each.raw, {}),
                due.get(each.raw),
                is_job=each.raw in jobs,
                place=place.key,
            )
            for each, at in zip(elements, range(0, len(stored), 4), strict=True)
        ]

    def _records(
        self, place: Place, elements: list[Element]
    ) -> tuple[dict[bytes, dict[str, bytes]], dict[bytes, int]]:
        """Return by id the records of each message, and the own times of those held back."""
        ids = [each.raw for each in elements]
        records: dict[bytes, dict[str, bytes]] = {}
        due: dict[bytes, int] = {}
        members: dict[bytes, bytes] = {}
        for record in MESSAGE_RECORDS:
            found = read_records(record, self.server.hmget, place.key, place.hash, ids)
            for id, each in found.items():
                records.setdefault(id, {})[record.key] = each.text
                if each.due_ms is not None:
                    due[id], members[id] = each.due_ms, each.text + b"\0" + id
        held_back = self.server.pipelined(
            [("ZSCORE", extension_key(place.key, "held_back"), each) for each in members.values()]
        )
        places = zip(members, held_back, strict=True)
        return records, {id: due[id] for id, score in places if score is not None}

    def _jobs(self, place: Place, elements: list[Element]) -> set[bytes]:
        """Return the ids of the messages that have a record as a job."""
        ids = [each.raw for each in elements]
        try:
            found = self.server.pipelined([("EXISTS", job_key(place.key, id)) for id in ids])
        except ResponseError:  # the user has no right to these keys
            return set()
        return {id for id, is_there in zip(ids, found, strict=True) if is_there}

    def _item(
        self,
        element: Element,
        stored: list[bytes | None],
        now_ms: int,
        records: dict[str, bytes],
        held_ms: int | None,
        *,
        is_job: bool,
        place: bytes,
    ) -> Item:
        body, count, first, meta = stored
        if is_reserved_id(element.raw):
            return Item(element, "ready", None, identity=element.raw, notes=(_RESERVED_NOTE,))
        score, notes = _normalize_score(element.score or 0.0)
        id = decode_name(element.raw)
        received = parse_integer(count) or 0
        state: ItemState = "ready"
        if score > now_ms:
            state = "in_flight" if received > 0 else "delayed"
        if body is None:
            is_half = score > now_ms - _INCOMPLETE_SEND_MS
            if is_half:
                return Item(element, "in_flight", None, identity=element.raw, is_half=True)
            return Item(element, state, None, identity=element.raw, notes=(_GHOST_NOTE,))
        if meta is not None:
            notes = (*notes, "apalis-rsmq's meta of it")
        if is_job:
            notes = (*notes, "its record as a job, which belongs to the queue that it was sent to")
        keeps_id = _NODE_ID.fullmatch(id) is not None
        sent_us = parse_sent_us(id, now_ms)
        return Item(
            element,
            state,
            leave_namespace(body, place),
            identity=element.raw,
            id=id if keeps_id else None,
            sent_us=min(score, now_ms) * 1000 if sent_us is None else sent_us,
            # The score of a message that is held back is a day ahead.
            due_ms=score if held_ms is None or received > 0 else held_ms,
            receive_count=max(received, 0),
            first_received_ms=_parse_first_received(first) if received > 0 else None,
            records=records,
            notes=notes if keeps_id else (*notes, "an id that Node can't delete: it got a new one"),
        )


def _normalize_score(score: float) -> tuple[int, tuple[str, ...]]:
    score = min(max(score, -_LARGEST_SCORE), _LARGEST_SCORE)
    if score >= _MICROSECONDS_ABOVE:
        return int(score / 1000), ("a score in microseconds, as of rsmq_async's break-js-comp",)
    if _FRONT_BELOW <= score < _SECONDS_BELOW:
        return int(score * 1000), ("a score in seconds, as of rsmq_async 7 and rsmq-rb",)
    return int(score), ()


def _parse_first_received(stored: bytes | None) -> int | None:
    number = parse_number(stored)
    if number is None or number <= 0:
        return None
    return _normalize_score(number)[0]
