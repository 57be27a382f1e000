"""
Rqueue 1 to 4, in both layouts: a list of visible messages, and sorted sets of delayed messages and
of messages in flight. Each message is one JSON text in one of the three.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, ClassVar

from rsmq.errors import SourceNotFound
from rsmq.migrate.server import Server
from rsmq.migrate.sources.base import KeyedSource
from rsmq.migrate.sources.item import STATES, Element, Found, Item, ItemState, Place

# In the year 5138: replaces an infinite time.
_LATEST_MS = 1e14

_CONFIG = b"__rq::q-config::"

# The prefixes of keys in the two layouts; the name of the queue follows.
_FIRST_LAYOUT_PREFIXES: dict[bytes, ItemState] = {
    b"rqueue-delay::": "delayed",
    b"rqueue-processing::": "in_flight",
}
_SECOND_LAYOUT_PREFIXES: dict[bytes, ItemState] = {
    b"__rq::queue::": "ready",
    b"__rq::d-queue::": "delayed",
    b"__rq::p-queue::": "in_flight",
}

_PRIORITY = re.compile(r"(.+)_(critical|high|medium|low)")


class Rqueue(KeyedSource):
    """
    Queues of Rqueue, and its dead-letter queues.

    The body is the text that Rqueue stored as ``message``; its default converter wraps it as
    ``{"msg": ..., "name": JAVA_CLASS}``. Failures count as receives. A message was sent at its
    processAt if that is past. A message that was deleted, or superseded by a later message with its
    id, is left out, since Rqueue would not process it either.
    """

    kind: ClassVar[str] = "rqueue"

    def __init__(self, server: Server, *, unwrap: bool = False) -> None:
        """
        Create the source.

        Args:
            server: the server of the queues.
            unwrap: True makes the ``msg`` of the default converter the body.
        """
        super().__init__(server)
        self._unwrap = unwrap
        self._places: dict[str, list[Place]] = {}
        self._dead_letter_queues: dict[str, list[str]] | None = None

    def queues(self) -> list[str]:
        """Return queues, sub-queues of priorities, and dead-letter queues that have messages."""
        found = {
            _strip_hash_tag(key.removeprefix(prefix))
            for prefix, state in (*_SECOND_LAYOUT_PREFIXES.items(), *_FIRST_LAYOUT_PREFIXES.items())
            for key in self.scan(prefix + b"*", "list" if state == "ready" else "zset")
        }
        configured = self._read_dead_letter_queues()
        found.update(configured, *configured.values())
        return sorted(name for name in found if any(self.counts(name).values()))

    def look(self, queue: str) -> Found:
        """See ``Source``."""
        counts = self.counts(queue)
        config = self._read_config(queue)
        has_messages = any(counts.values()) or self.server.raw.exists(self.aside_key(queue))
        if not has_messages and config is None:
            raise SourceNotFound(
                f"There is no Rqueue queue {queue!r}, nor a dead-letter queue of this name",
                value=queue,
                hint="`rsmq migrate --from rqueue --dry-run` lists all that have messages.",
            )
        return Found(queue, counts, _parse_attributes(config), self._make_notes(queue, config))

    def places(self, queue: str) -> list[Place]:
        """See ``KeyedSource``. The layout is looked up again until a key of the queue exists."""
        if queue in self._places:
            return self._places[queue]
        found = self._find_places(queue)
        if self._filter_existing(found):
            self._places[queue] = found
        return found

    def _find_places(self, queue: str) -> list[Place]:
        name = queue.encode("utf-8", "surrogateescape")
        names = (name,) if b"{" in name else (b"{" + name + b"}", name)
        first = [
            Place(prefix + each, "sorted", state)
            for prefix, state in _FIRST_LAYOUT_PREFIXES.items()
            for each in names
        ]
        second = [
            Place(prefix + each, "left" if state == "ready" else "sorted", state)
            for prefix, state in _SECOND_LAYOUT_PREFIXES.items()
            for each in names
        ]
        existing = self._filter_existing(first + second)
        # A list whose key is just the name: ready messages in the first layout, else dead letters.
        is_dead = any(queue in each for each in self._read_dead_letter_queues().values())
        if is_dead or not existing:
            lists = self._filter_existing([Place(each, "right", "ready") for each in names])
        else:
            lists = []
        if not is_dead and (self._is_first_layout() or any(place in first for place in existing)):
            lists = [Place(each, "left", "ready") for each in names]
            second = [place for place in second if place in existing]
        else:
            first = [place for place in first if place in existing]
        return sorted(lists + second + first, key=lambda place: STATES.index(place.state))

    def _filter_existing(self, places: list[Place]) -> list[Place]:
        kinds = self.server.pipelined(lambda pipeline, place: pipeline.type(place.key), places)
        return [
            place
            for place, kind in zip(places, kinds, strict=True)
            if kind == (b"zset" if place.shape == "sorted" else b"list")
        ]

    def _is_first_layout(self) -> bool:
        return (self.server.raw.get("__rq::version") or b"").strip(b'"') == b"1"

    def items(self, queue: str, place: Place, elements: list[Element]) -> list[Item]:
        """See ``KeyedSource``."""
        now_ms = self.server.now_us() // 1000
        parsed = [_parse_message(each.raw) for each in elements]
        metadata = self._read_metadata(queue, parsed)
        return [
            self._item(place, element, message, message_metadata, now_ms)
            for element, message, message_metadata in zip(elements, parsed, metadata, strict=True)
        ]

    def _item(
        self,
        place: Place,
        element: Element,
        message: dict[str, Any] | None,
        message_metadata: dict[str, Any],
        now_ms: int,
    ) -> Item:
        if message is None:
            return Item(
                element, place.state, element.raw,
                notes=("no message of Rqueue: taken over as it is",),
            )  # fmt: skip
        identity = str(message["id"]).encode("utf-8", "surrogatepass")
        if left_out := _reason_to_leave_out(message, message_metadata):
            return Item(element, place.state, None, identity=identity, notes=(left_out,))
        process_at = _parse_integer(message.get("processAt"))
        sent_ms = process_at if process_at is not None and 0 <= process_at <= now_ms else None
        in_flight = place.state == "in_flight"
        due_ms = int(min(max(element.score or 0.0, 0.0), _LATEST_MS))
        failures = _parse_integer(message.get("failureCount")) or 0
        received = failures + in_flight
        body, notes = self._make_body(message)
        return Item(
            element,
            place.state,
            body,
            identity=identity,
            sent_us=None if sent_ms is None else sent_ms * 1000,
            # A due message is sorted by its sent time, also if it is due for a retry.
            due_ms=due_ms if due_ms > now_ms else None,
            receive_count=received,
            first_received_ms=(sent_ms or now_ms) if received else None,
            notes=(*notes, *_unsupported_notes(message)),
        )

    def _make_body(self, message: dict[str, Any]) -> tuple[bytes, tuple[str, ...]]:
        text = message.get("message")
        if not isinstance(text, str):
            text = json.dumps(text, ensure_ascii=False, separators=(",", ":"))
        if self._unwrap:
            wrapped = _parse_object(text)
            if wrapped is not None and isinstance(wrapped.get("msg"), str) and "name" in wrapped:
                return wrapped["msg"].encode("utf-8", "surrogatepass"), (
                    "the Java class beside msg, which --unwrap leaves out",
                )
        return text.encode("utf-8", "surrogatepass"), ()

    def _read_metadata(
        self, queue: str, messages: list[dict[str, Any] | None]
    ) -> list[dict[str, Any]]:
        name = queue.encode("utf-8", "surrogateescape")
        keys = []
        for message in messages:
            own = message and message.get("queueName")
            queue_name = own.encode("utf-8", "surrogatepass") if isinstance(own, str) else name
            id = str(message["id"]).encode("utf-8", "surrogatepass") if message else b""
            keys.append(b"__rq::m-mdata::" + queue_name + b"::" + id)
        texts = self.server.raw.mget(keys) if keys else []
        return [_parse_object(text) or {} for text in texts]

    def _read_dead_letter_queues(self) -> dict[str, list[str]]:
        """Return the names of the dead-letter queues of each queue that has a configuration."""
        if self._dead_letter_queues is None:
            keys = sorted(set(self.scan(_CONFIG + b"*")))
            texts = self.server.raw.mget(keys) if keys else []
            self._dead_letter_queues = {
                _strip_hash_tag(key.removeprefix(_CONFIG)): _parse_dead_letter_queues(
                    _parse_object(text) or {}
                )
                for key, text in zip(keys, texts, strict=True)
            }
        return self._dead_letter_queues

    def _read_config(self, queue: str) -> dict[str, Any] | None:
        name = queue.encode("utf-8", "surrogateescape")
        texts = self.server.raw.mget([_CONFIG + name, _CONFIG + b"{" + name + b"}"])
        return next((found for text in texts if (found := _parse_object(text)) is not None), None)

    def _make_notes(self, queue: str, config: dict[str, Any] | None) -> tuple[str, ...]:
        notes = []
        if priority := _PRIORITY.fullmatch(queue):
            notes.append(
                f"the priority {priority[2]!r} of {priority[1]!r}: give a worker the queues in "
                "the order of their priority"
            )
        if config is not None:
            for name, hint in (
                ("numRetry", "a listener's max_retries"),
                ("concurrency", "a listener's concurrency"),
                ("priority", "the order of a worker's queues"),
            ):
                if value := _without_java_class(config.get(name)):
                    notes.append(f"its setting {name}: {json.dumps(value)} ({hint})")
            notes += [
                f"its dead-letter queue {name} (a listener's dead_letter_queue)"
                for name in _parse_dead_letter_queues(config)
            ]
        return tuple(notes)


def _strip_hash_tag(name: bytes) -> str:
    text = name.decode("utf-8", "surrogateescape")
    return text[1:-1] if text.startswith("{") and text.endswith("}") else text


def _parse_message(raw: bytes) -> dict[str, Any] | None:
    message = _parse_object(raw)
    return message if message is not None and "id" in message and "message" in message else None


def _parse_object(text: bytes | str | None) -> dict[str, Any] | None:
    try:
        found = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _reason_to_leave_out(message: dict[str, Any], message_metadata: dict[str, Any]) -> str | None:
    if message_metadata.get("deleted") is True:
        return "deleted in Rqueue: left out"
    newest = message_metadata.get("rqueueMessage")
    if isinstance(newest, dict) and newest.get("queuedTime") != message.get("queuedTime"):
        return "superseded by a later message of its id: left out"
    return None


def _unsupported_notes(message: dict[str, Any]) -> Iterable[str]:
    if message.get("period"):
        yield "a periodic message: this one time of it is taken over, its schedule is not"
    if message.get("retryCount") is not None:
        yield "its own retryCount"
    if message.get("sourceQueueName"):
        yield "its sourceQueueName and sourceQueueFailureCount"
    if message.get("reEnqueuedAt"):
        yield "its reEnqueuedAt"


def _without_java_class(value: object) -> object:
    """Remove the types that Jackson writes into objects."""
    if isinstance(value, dict):
        return {name: each for name, each in value.items() if name != "@class"}
    return value


def _parse_attributes(config: dict[str, Any] | None) -> dict[str, int]:
    ms = _parse_integer((config or {}).get("visibilityTimeout"))
    return {} if not ms else {"vt": min(-(-ms // 1000), 9_999_999)}


def _parse_dead_letter_queues(config: dict[str, Any]) -> list[str]:
    match config.get("deadLetterQueuesV2") or config.get("deadLetterQueues"):
        case [str(), list(queues)]:  # Jackson writes the type of a collection first
            pass
        case list(queues):
            pass
        case _:
            queues = []
    return [
        each["name"]
        for each in queues
        if isinstance(each, dict)
        and isinstance(each.get("name"), str)
        and _is_encodable(each["name"])
    ]


def _is_encodable(name: str) -> bool:
    """Return whether a name can be encoded as UTF-8: a JSON text may have lone surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _parse_integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
