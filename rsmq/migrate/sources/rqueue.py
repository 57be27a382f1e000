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
from rsmq.migrate.sources.base import Keyed
from rsmq.migrate.sources.item import STATES, Element, Found, Item, ItemState, Place

# In the year 5138: for what is infinite.
_NEVER_MS = 1e14

_CONFIG = b"__rq::q-config::"

# What stands before a queue's name in the keys of the two layouts.
_FIRST_LAYOUT: dict[bytes, ItemState] = {
    b"rqueue-delay::": "delayed",
    b"rqueue-processing::": "in_flight",
}
_SECOND_LAYOUT: dict[bytes, ItemState] = {
    b"__rq::queue::": "ready",
    b"__rq::d-queue::": "delayed",
    b"__rq::p-queue::": "in_flight",
}

_PRIORITY = re.compile(r"(.+)_(critical|high|medium|low)")


class Rqueue(Keyed):
    """
    Queues of Rqueue, and its dead-letter queues.

    The body is the text that Rqueue stored as ``message``; its default converter wraps it as
    ``{"msg": ..., "name": JAVA_CLASS}``. Failures count as receives. A message was sent at its
    processAt where that is past. What was deleted, or superseded by a later message of its id, is
    left out, as Rqueue itself would leave it.
    """

    kind: ClassVar[str] = "rqueue"

    def __init__(self, server: Server, *, unwrap: bool = False) -> None:
        """
        Make it.

        Args:
            server: where the queues are.
            unwrap: True makes what the default converter wrapped the body: its ``msg``.
        """
        super().__init__(server)
        self._unwrap = unwrap
        self._places: dict[str, list[Place]] = {}
        self._dead_letter_queues: dict[str, list[str]] | None = None

    def queues(self) -> list[str]:
        """Queues, sub-queues of priorities, and dead-letter queues that have messages."""
        found = {
            _untagged(key.removeprefix(prefix))
            for prefix, state in (*_SECOND_LAYOUT.items(), *_FIRST_LAYOUT.items())
            for key in self.scan(prefix + b"*", "list" if state == "ready" else "zset")
        }
        configured = self._configured()
        found.update(configured, *configured.values())
        return sorted(name for name in found if any(self.counts(name).values()))

    def look(self, queue: str) -> Found:
        """As ``Source`` has it."""
        counts = self.counts(queue)
        config = self._config(queue)
        waits = any(counts.values()) or self.server.raw.exists(self.aside_key(queue))
        if not waits and config is None:
            raise SourceNotFound(
                f"There is no Rqueue queue {queue!r}, nor a dead-letter queue of this name",
                value=queue,
                hint="`rsmq migrate --from rqueue --dry-run` lists all that have messages.",
            )
        return Found(queue, counts, _attributes(config), self._notes(queue, config))

    def places(self, queue: str) -> list[Place]:
        """As ``Keyed`` has it; what the layout is, is looked up until it can be told."""
        if queue in self._places:
            return self._places[queue]
        found = self._find_places(queue)
        if self._there(found):
            self._places[queue] = found
        return found

    def _find_places(self, queue: str) -> list[Place]:
        name = queue.encode("utf-8", "surrogateescape")
        names = (name,) if b"{" in name else (b"{" + name + b"}", name)
        first = [
            Place(prefix + each, "sorted", state)
            for prefix, state in _FIRST_LAYOUT.items()
            for each in names
        ]
        second = [
            Place(prefix + each, "left" if state == "ready" else "sorted", state)
            for prefix, state in _SECOND_LAYOUT.items()
            for each in names
        ]
        there = self._there(first + second)
        # A list of just the name: what is ready in the first layout, else dead letters.
        is_dead = any(queue in others for others in self._configured().values())
        if is_dead or not there:
            lists = self._there([Place(each, "right", "ready") for each in names])
        else:
            lists = []
        if not is_dead and (self._is_of_first_layout() or any(place in first for place in there)):
            lists = [Place(each, "left", "ready") for each in names]
            second = [place for place in second if place in there]
        else:
            first = [place for place in first if place in there]
        return sorted(lists + second + first, key=lambda place: STATES.index(place.state))

    def _there(self, places: list[Place]) -> list[Place]:
        kinds = self.server.pipelined(lambda pipeline, place: pipeline.type(place.key), places)
        return [
            place
            for place, kind in zip(places, kinds, strict=True)
            if kind == (b"zset" if place.shape == "sorted" else b"list")
        ]

    def _is_of_first_layout(self) -> bool:
        return (self.server.raw.get("__rq::version") or b"").strip(b'"') == b"1"

    def items(self, queue: str, place: Place, elements: list[Element]) -> list[Item]:
        """As ``Keyed`` has it."""
        now_ms = self.server.now_us() // 1000
        parsed = [_parsed(each.raw) for each in elements]
        metadata = self._metadata(queue, parsed)
        return [
            self._item(place, element, message, about, now_ms)
            for element, message, about in zip(elements, parsed, metadata, strict=True)
        ]

    def _item(
        self,
        place: Place,
        element: Element,
        message: dict[str, Any] | None,
        about: dict[str, Any],
        now_ms: int,
    ) -> Item:
        if message is None:
            return Item(
                element, place.state, element.raw,
                notes=("no message of Rqueue: taken over as it is",),
            )  # fmt: skip
        identity = str(message["id"]).encode("utf-8", "surrogatepass")
        if left_out := _left_out(message, about):
            return Item(element, place.state, None, identity=identity, notes=(left_out,))
        process_at = _whole(message.get("processAt"))
        sent_ms = process_at if process_at is not None and 0 <= process_at <= now_ms else None
        in_flight = place.state == "in_flight"
        due_ms = int(min(max(element.score or 0.0, 0.0), _NEVER_MS))
        failures = _whole(message.get("failureCount")) or 0
        received = failures + in_flight
        body, notes = self._body(message)
        return Item(
            element,
            place.state,
            body,
            identity=identity,
            sent_us=None if sent_ms is None else sent_ms * 1000,
            # What is due stands where it was sent, whenever it was to be tried again.
            due_ms=due_ms if due_ms > now_ms else None,
            receive_count=received,
            first_received_ms=(sent_ms or now_ms) if received else None,
            notes=(*notes, *_has_no_place(message)),
        )

    def _body(self, message: dict[str, Any]) -> tuple[bytes, tuple[str, ...]]:
        text = message.get("message")
        if not isinstance(text, str):
            text = json.dumps(text, ensure_ascii=False, separators=(",", ":"))
        if self._unwrap:
            wrapped = _object(text)
            if wrapped is not None and isinstance(wrapped.get("msg"), str) and "name" in wrapped:
                return wrapped["msg"].encode("utf-8", "surrogatepass"), (
                    "the Java class beside msg, which --unwrap leaves out",
                )
        return text.encode("utf-8", "surrogatepass"), ()

    def _metadata(self, queue: str, messages: list[dict[str, Any] | None]) -> list[dict[str, Any]]:
        name = queue.encode("utf-8", "surrogateescape")
        keys = []
        for message in messages:
            own = message and message.get("queueName")
            of = own.encode("utf-8", "surrogatepass") if isinstance(own, str) else name
            id = str(message["id"]).encode("utf-8", "surrogatepass") if message else b""
            keys.append(b"__rq::m-mdata::" + of + b"::" + id)
        texts = self.server.raw.mget(keys) if keys else []
        return [_object(text) or {} for text in texts]

    def _configured(self) -> dict[str, list[str]]:
        """The names of the dead-letter queues of each queue that has a configuration."""
        if self._dead_letter_queues is None:
            keys = sorted(set(self.scan(_CONFIG + b"*")))
            texts = self.server.raw.mget(keys) if keys else []
            self._dead_letter_queues = {
                _untagged(key.removeprefix(_CONFIG)): _dead_letter_queues(_object(text) or {})
                for key, text in zip(keys, texts, strict=True)
            }
        return self._dead_letter_queues

    def _config(self, queue: str) -> dict[str, Any] | None:
        name = queue.encode("utf-8", "surrogateescape")
        texts = self.server.raw.mget([_CONFIG + name, _CONFIG + b"{" + name + b"}"])
        return next((found for text in texts if (found := _object(text)) is not None), None)

    def _notes(self, queue: str, config: dict[str, Any] | None) -> tuple[str, ...]:
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
                if value := _plain(config.get(name)):
                    notes.append(f"its setting {name}: {json.dumps(value)} ({hint})")
            notes += [
                f"its dead-letter queue {name} (a listener's dead_letter_queue)"
                for name in _dead_letter_queues(config)
            ]
        return tuple(notes)


def _untagged(name: bytes) -> str:
    text = name.decode("utf-8", "surrogateescape")
    return text[1:-1] if text.startswith("{") and text.endswith("}") else text


def _parsed(raw: bytes) -> dict[str, Any] | None:
    message = _object(raw)
    return message if message is not None and "id" in message and "message" in message else None


def _object(text: bytes | str | None) -> dict[str, Any] | None:
    try:
        found = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _left_out(message: dict[str, Any], about: dict[str, Any]) -> str | None:
    if about.get("deleted") is True:
        return "deleted in Rqueue: left out"
    newest = about.get("rqueueMessage")
    if isinstance(newest, dict) and newest.get("queuedTime") != message.get("queuedTime"):
        return "superseded by a later message of its id: left out"
    return None


def _has_no_place(message: dict[str, Any]) -> Iterable[str]:
    if message.get("period"):
        yield "a periodic message: this one time of it is taken over, its schedule is not"
    if message.get("retryCount") is not None:
        yield "its own retryCount"
    if message.get("sourceQueueName"):
        yield "its sourceQueueName and sourceQueueFailureCount"
    if message.get("reEnqueuedAt"):
        yield "its reEnqueuedAt"


def _plain(value: object) -> object:
    """Without what Jackson says of types."""
    if isinstance(value, dict):
        return {name: each for name, each in value.items() if name != "@class"}
    return value


def _attributes(config: dict[str, Any] | None) -> dict[str, int]:
    ms = _whole((config or {}).get("visibilityTimeout"))
    return {} if not ms else {"vt": min(-(-ms // 1000), 9_999_999)}


def _dead_letter_queues(config: dict[str, Any]) -> list[str]:
    match config.get("deadLetterQueuesV2") or config.get("deadLetterQueues"):
        case [str(), list(queues)]:  # as Jackson writes a collection with its type
            pass
        case list(queues):
            pass
        case _:
            queues = []
    return [
        each["name"]
        for each in queues
        if isinstance(each, dict) and isinstance(each.get("name"), str) and _is_text(each["name"])
    ]


def _is_text(name: str) -> bool:
    """Whether it can be the name of a key: JSON has halves of characters too."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
