"""
Rqueue 1 to 4, in both layouts: a list of visible messages, and sorted sets of delayed messages and
of messages in flight. Each message is one JSON text in one of the three.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, ClassVar

from rsmq.errors import InvalidFormat, SourceNotFound
from rsmq.migrate.server import Server
from rsmq.migrate.sources.base import KeyedSource
from rsmq.migrate.sources.item import Element, Found, Item, PeriodicMessage, Place
from rsmq.migrate.sources.rqueue_keys import (
    DEFAULT_PREFIX,
    QueueConfig,
    RqueueKeys,
    metadata_keys,
    parse_object,
)
from rsmq.wire.limits import MAX_LABEL, check_label
from rsmq.wire.names import encode_name, is_encodable

# In the year 5138: replaces an infinite time.
_LATEST_MS = 1e14

_PRIORITY = re.compile(r"(.+)_(critical|high|medium|low)")

# Rqueue stores this concurrency for listeners that have not set one.
_NO_CONCURRENCY = {"min": -1, "max": -1}


class Rqueue(KeyedSource):
    """
    Queues of Rqueue, and its dead-letter queues.

    The body is the text that Rqueue stored as ``message``; its default converter wraps it as
    ``{"msg": ..., "name": JAVA_CLASS}``. Failures count as receives. A message was sent at its
    processAt if that is past. A message that was deleted, or superseded by a later message with its
    id, is left out, since Rqueue would not process it either.
    """

    kind: ClassVar[str] = "rqueue"

    def __init__(
        self,
        server: Server,
        *,
        unwrap: bool = False,
        prefix: str = DEFAULT_PREFIX,
        schedules: bool = False,
        unique_ids: bool = False,
    ) -> None:
        """
        Create the source.

        Args:
            server: the server of the queues.
            unwrap: True makes the ``msg`` of the default converter the body.
            prefix: Rqueue's setting ``rqueue.key.prefix``. The other settings of keys are read from
                the configuration that Rqueue has stored.
            schedules: True makes a move or a bridge add a schedule for each periodic message,
                before it moves the message: that message is the last one of Rqueue's times, and the
                schedule sends those after it. It is named after the target queue and the id of the
                message. One of this name with other settings stays.
            unique_ids: True makes the id of each message its unique key in the target queue, unless
                another message there has it. So a send with ``unique_key=`` that id adds nothing
                before the message is done, as ``enqueueUnique`` in Rqueue. Rqueue does not store
                which messages were sent with it, so all get their keys. Ids of more than 128
                characters can't be keys.

        Raises:
            InvalidFormat: the prefix is not a text.
        """
        if not isinstance(prefix, str) or not is_encodable(prefix):
            raise InvalidFormat(
                "prefix",
                value=prefix,
                hint=f"Pass the value of rqueue.key.prefix as a str, as in {DEFAULT_PREFIX!r}.",
            )
        super().__init__(server)
        self._unwrap = unwrap
        self._schedules = schedules
        self._unique_ids = unique_ids
        self._keys = RqueueKeys(server, prefix)
        self._places: dict[str, list[Place]] = {}

    def queues(self) -> list[str]:
        """Return queues, sub-queues of priorities, and dead-letter queues that have messages."""
        return sorted(name for name in self._keys.read_names() if any(self.counts(name).values()))

    def look(self, queue: str) -> Found:
        """See ``Source``."""
        counts = self.counts(queue)
        config = self._keys.read_config(queue)
        has_messages = any(counts.values()) or self.server.call("EXISTS", self.aside_key(queue))
        if not has_messages and config is None:
            raise SourceNotFound(
                f"There is no Rqueue queue {queue!r}, nor a dead-letter queue of this name",
                value=queue,
                hint="`rsmq migrate --from rqueue --dry-run` lists all that have messages. If "
                "Rqueue's setting rqueue.key.prefix was changed, give --prefix.",
            )
        return Found(
            queue,
            counts,
            _parse_settings(config),
            _make_notes(queue, config),
        )

    def periodic_messages(self, queue: str) -> list[PeriodicMessage]:
        """
        Return the periodic messages of a queue, in the order of their ids.

        Nothing is changed. ``Rqueue(server, schedules=True)`` takes them over. It reads all
        messages of the queue, in steps.

        Args:
            queue: the name of the queue in Rqueue.
        """
        found: dict[str, PeriodicMessage] = {}
        for page in self.newest_first(queue):
            for item in page:
                message = _parse_message(item.element.raw)
                periodic = _parse_periodic(message, item.body)
                earlier = periodic and found.get(periodic.id)
                if periodic and not (earlier and earlier.due_ms > periodic.due_ms):
                    found[periodic.id] = periodic
        return [found[id] for id in sorted(found)]

    def places(self, queue: str) -> list[Place]:
        """See ``KeyedSource``. The layout is looked up again until a key of the queue exists."""
        if queue in self._places:
            return self._places[queue]
        found = self._keys.find_places(queue)
        if self._keys.filter_existing(found):
            self._places[queue] = found
        return found

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
        identity = _encode_id(message)
        if left_out := _reason_to_leave_out(message, message_metadata):
            return Item(element, place.state, None, identity=identity, notes=(left_out,))
        process_at = _parse_integer(message.get("processAt"))
        sent_ms = process_at if process_at is not None and 0 <= process_at <= now_ms else None
        in_flight = place.state == "in_flight"
        due_ms = int(min(max(element.score or 0.0, 0.0), _LATEST_MS))
        failures = _parse_integer(message.get("failureCount")) or 0
        received = failures + in_flight
        body, notes = self._make_body(message)
        periodic = _parse_periodic(message, body) if self._schedules else None
        unique_key, key_notes = self._unique_key(message)
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
            notes=(*notes, *key_notes, *_unsupported_notes(message, schedules=self._schedules)),
            unique_key=unique_key,
            periodic=periodic,
        )

    def _unique_key(self, message: dict[str, Any]) -> tuple[bytes, tuple[str, ...]]:
        if not self._unique_ids:
            return b"", ()
        try:
            return check_label("unique_key", str(message["id"])), ()
        except InvalidFormat:
            return b"", (f"its id has not 1 to {MAX_LABEL} characters, so it gets no unique key",)

    def _make_body(self, message: dict[str, Any]) -> tuple[bytes, tuple[str, ...]]:
        text = message.get("message")
        if not isinstance(text, str):
            text = json.dumps(text, ensure_ascii=False, separators=(",", ":"))
        if self._unwrap:
            wrapped = parse_object(text)
            if wrapped is not None and isinstance(wrapped.get("msg"), str) and "name" in wrapped:
                return wrapped["msg"].encode("utf-8", "surrogatepass"), (
                    "the Java class beside msg, which --unwrap leaves out",
                )
        return text.encode("utf-8", "surrogatepass"), ()

    def _read_metadata(
        self, queue: str, messages: list[dict[str, Any] | None]
    ) -> list[dict[str, Any]]:
        queue_name = encode_name(queue)
        keys: list[bytes] = []
        for message in messages:
            own = message and message.get("queueName")
            name = own.encode("utf-8", "surrogatepass") if isinstance(own, str) else queue_name
            keys += metadata_keys(name, _encode_id(message) if message else b"")
        texts = iter(self.server.call("MGET", *keys) if keys else ())
        return [
            parse_object(text) or _of_message(parse_object(text_of_2_0), message) or {}
            for message, text, text_of_2_0 in zip(messages, texts, texts, strict=True)
        ]


def _make_notes(queue: str, config: QueueConfig | None) -> tuple[str, ...]:
    notes = []
    if priority := _PRIORITY.fullmatch(queue):
        notes.append(
            f"the priority {priority[2]!r} of {priority[1]!r}: pass it in the levels of its "
            "listener"
        )
    if config is not None:
        for name, hint in (
            ("numRetry", "a listener's max_retries"),
            ("concurrency", "a listener's concurrency=(min, max)"),
            ("priority", "a listener's levels"),
        ):
            value = _without_java_class(config.values.get(name))
            if value and value != _NO_CONCURRENCY:
                notes.append(f"its setting {name}: {json.dumps(value)} ({hint})")
        notes += [
            f"its dead-letter queue {name} (a listener's dead_letter_queue)"
            for name in config.dead_letter_queues
        ]
    return tuple(notes)


def _parse_message(raw: bytes) -> dict[str, Any] | None:
    message = parse_object(raw)
    return message if message is not None and "id" in message and "message" in message else None


def _encode_id(message: dict[str, Any]) -> bytes:
    return str(message["id"]).encode("utf-8", "surrogatepass")


def _of_message(
    metadata: dict[str, Any] | None, message: dict[str, Any] | None
) -> dict[str, Any] | None:
    """Return metadata of Rqueue 2.0 if it is that of a message: they name its id."""
    is_own = metadata and message and metadata.get("messageId") == message["id"]
    return metadata if is_own else None


def _reason_to_leave_out(message: dict[str, Any], message_metadata: dict[str, Any]) -> str | None:
    if message_metadata.get("deleted") is True:
        return "deleted in Rqueue: left out"
    newest = message_metadata.get("rqueueMessage")
    if isinstance(newest, dict) and newest.get("queuedTime") != message.get("queuedTime"):
        return "superseded by a later message of its id: left out"
    return None


def _parse_periodic(message: dict[str, Any] | None, body: bytes | None) -> PeriodicMessage | None:
    """Return a message as a periodic one; None if it is none, or is left out."""
    period_ms = _parse_integer(message.get("period")) if message else None
    if message is None or body is None or not period_ms or period_ms < 0:
        return None
    due_ms = _parse_integer(message.get("processAt")) or 0
    return PeriodicMessage(
        str(message["id"]), period_ms / 1000, body, int(min(max(due_ms, 0), _LATEST_MS))
    )


def _unsupported_notes(message: dict[str, Any], *, schedules: bool) -> Iterable[str]:
    if message.get("period") and not schedules:
        yield (
            "a periodic message: this one time of it is taken over, its schedule only with "
            "--schedules"
        )
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


def _parse_settings(config: QueueConfig | None) -> dict[str, Any]:
    if config is None:
        return {}
    ms = _parse_integer(config.values.get("visibilityTimeout"))
    settings = {} if not ms else {"vt": ms / 1000}
    return {**settings, "paused": config.values.get("paused") is True}


def _parse_integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
