"""
The keys of Rqueue's queues: named in their stored configuration, else by the default names of the
two layouts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rsmq.migrate.server import Server
from rsmq.migrate.sources.item import STATES, ItemState, Place
from rsmq.wire.keys import escape_pattern
from rsmq.wire.names import encode_name, is_encodable

#: Rqueue's default of its setting ``rqueue.key.prefix``.
DEFAULT_PREFIX = "__rq::"

# The first layout has no setting for its keys. The name of the queue follows, without braces.
_FIRST_LAYOUT: dict[bytes, ItemState] = {
    b"rqueue-delay::": "delayed",
    b"rqueue-processing::": "in_flight",
}

# In the second layout, these follow the prefix of all keys. The name of the queue follows, with
# braces unless rqueue.cluster.mode is off.
_SECOND_LAYOUT: dict[bytes, ItemState] = {
    b"queue::": "ready",
    b"d-queue::": "delayed",
    b"p-queue::": "in_flight",
}

# The names of keys in a stored configuration: before 2.10, and since.
_KEY_SETTINGS: dict[str, ItemState] = {
    "queueName": "ready",
    "delayedQueueName": "delayed",
    "scheduledQueueName": "delayed",
    "processingQueueName": "in_flight",
}

# Metadata and the version have these names with any prefix.
_METADATA = b"__rq::m-mdata::"
_VERSION = b"__rq::version"

_TAGGED = re.compile(r"\{([^{}]+)\}(_.+)?")


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """
    The stored configuration of a queue.

    Attributes:
        values: the configuration, as Rqueue stored it.
        dead_letter_queues: the names of its dead-letter queues.
        places: the places of its messages; empty if the configuration does not name their keys.
    """

    values: dict[str, Any]
    dead_letter_queues: tuple[str, ...]
    places: tuple[Place, ...]


class RqueueKeys:
    """The keys of Rqueue's queues on a server, with one setting of ``rqueue.key.prefix``."""

    def __init__(self, server: Server, prefix: str) -> None:
        """
        Prepare to read the names of keys. Nothing is read yet.

        Args:
            server: the server of the queues.
            prefix: the setting ``rqueue.key.prefix``.
        """
        self._server = server
        self._config_prefix = encode_name(prefix) + b"q-config::"
        self._second_layout = {
            encode_name(prefix) + kind: state for kind, state in _SECOND_LAYOUT.items()
        }
        # An application with another prefix does not own the keys of the first layout.
        self._first_layout = _FIRST_LAYOUT if prefix == DEFAULT_PREFIX else {}
        self._configs: dict[str, QueueConfig] | None = None

    def read_names(self) -> set[str]:
        """Return the names of all queues that have a key or a configuration."""
        configs = self._read_configs()
        configured = {place.key for config in configs.values() for place in config.places}
        found = {
            _parse_name(key.removeprefix(prefix))
            for prefix, state in (*self._second_layout.items(), *self._first_layout.items())
            for key in self._scan(prefix, "list" if state == "ready" else "zset")
            if key not in configured
        }
        found.update(configs, *(config.dead_letter_queues for config in configs.values()))
        return found

    def read_config(self, queue: str) -> QueueConfig | None:
        """Return the stored configuration of a queue; None if there is none."""
        name = encode_name(queue)
        prefix = self._config_prefix
        texts = self._server.call("MGET", prefix + name, prefix + b"{" + name + b"}")
        values = next((found for text in texts if (found := parse_object(text)) is not None), None)
        return None if values is None else _parse_config(values)

    def find_places(self, queue: str) -> list[Place]:
        """
        Return the places of the messages of a queue, those of ready messages first.

        These are the places that its configuration names, and those under default names that exist.
        Without a configuration, these are the places of one layout.
        """
        config = self.read_config(queue)
        configured = () if config is None else config.places
        names = _candidate_names(queue)
        first = [
            Place(prefix + name, "sorted", state)
            for prefix, state in self._first_layout.items()
            for name in names
        ]
        second = [
            Place(prefix + name, "left" if state == "ready" else "sorted", state)
            for prefix, state in self._second_layout.items()
            for name in names
        ]
        existing = self.filter_existing(first + second)
        is_dead = any(queue in each.dead_letter_queues for each in self._read_configs().values())
        if configured:
            places = [*configured, *existing]
        elif not is_dead and (self._is_first_layout() or any(place in first for place in existing)):
            places = [*(Place(name, "left", "ready") for name in names), *first, *existing]
        else:
            places = [*second, *existing]
        if is_dead or not (configured or existing):
            places += self._find_dead_letter_lists(names)
        by_key: dict[bytes, Place] = {}
        for place in places:
            by_key.setdefault(place.key, place)
        return sorted(by_key.values(), key=lambda place: STATES.index(place.state))

    def filter_existing(self, places: list[Place]) -> list[Place]:
        """Return the places whose keys exist and have their type."""
        kinds = self._server.pipelined([("TYPE", place.key) for place in places])
        return [
            place
            for place, kind in zip(places, kinds, strict=True)
            if kind == (b"zset" if place.shape == "sorted" else b"list")
        ]

    def _find_dead_letter_lists(self, names: list[bytes]) -> list[Place]:
        """
        Return the lists that exist under the plain names, with the end of the oldest dead letter.

        Rqueue 2.0 to 2.3 pushed dead letters at the right end, later releases at the left end.
        """
        found = self.filter_existing([Place(name, "right", "ready") for name in names])
        return [
            Place(place.key, "left" if self._is_oldest_at_left(place.key) else "right", "ready")
            for place in found
        ]

    def _is_oldest_at_left(self, key: bytes) -> bool:
        left, right = (
            (parse_object(self._server.call("LINDEX", key, at)) or {}).get("reEnqueuedAt")
            for at in (0, -1)
        )
        return isinstance(left, int) and isinstance(right, int) and left < right

    def _is_first_layout(self) -> bool:
        version: bytes = self._server.call("GET", _VERSION) or b""
        return bool(self._first_layout) and version.strip(b'"') == b"1"

    def _read_configs(self) -> dict[str, QueueConfig]:
        """Return the configurations of all queues by name, as they were at the first call."""
        if self._configs is None:
            prefix = self._config_prefix
            keys = sorted(set(self._scan(prefix, "string")))
            texts = self._server.call("MGET", *keys) if keys else []
            self._configs = {
                _parse_name(key.removeprefix(prefix)): _parse_config(parse_object(text) or {})
                for key, text in zip(keys, texts, strict=True)
            }
        return self._configs

    def _scan(self, prefix: bytes, kind: str) -> Iterator[bytes]:
        return self._server.scan(escape_pattern(prefix) + b"*", kind)


def metadata_keys(queue: bytes, id: bytes) -> tuple[bytes, bytes]:
    """
    Return the key of a message's metadata, and its key in Rqueue 2.0.

    Args:
        queue: the queue that the message names.
        id: the id of the message.
    """
    return _METADATA + queue + b"::" + id, _METADATA + id


def parse_object(text: bytes | str | None) -> dict[str, Any] | None:
    """Return the object of a JSON text; None if the text is None or something else."""
    try:
        found = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _candidate_names(queue: str) -> list[bytes]:
    """Return the forms that the name may have in keys: with a hash tag or without."""
    if "{" in queue:
        return [encode_name(queue)]
    # The keys of a priority are those of its queue and a suffix: `{orders}_critical`.
    tagged = [
        f"{{{queue[: match.start()]}}}{queue[match.start() :]}"
        for match in re.finditer("(?<=.)_(?=.)", queue, re.DOTALL)
    ]
    return [encode_name(each) for each in (f"{{{queue}}}", *tagged, queue)]


def _parse_name(name: bytes) -> str:
    text = name.decode("utf-8", "surrogateescape")
    tagged = _TAGGED.fullmatch(text)
    return tagged[1] + (tagged[2] or "") if tagged else text


def _parse_config(values: dict[str, Any]) -> QueueConfig:
    places = [
        Place(encode_name(key), "left" if state == "ready" else "sorted", state)
        for name, state in _KEY_SETTINGS.items()
        if isinstance(key := values.get(name), str) and key and is_encodable(key)
    ]
    return QueueConfig(values, _parse_dead_letter_queues(values), tuple(places))


def _parse_dead_letter_queues(values: dict[str, Any]) -> tuple[str, ...]:
    """Return the names: 2.0 stored texts, later releases objects with a name."""
    match values.get("deadLetterQueuesV2") or values.get("deadLetterQueues"):
        case [str(), list(queues)]:  # Jackson writes the type of a collection first
            pass
        case list(queues):
            pass
        case _:
            queues = []
    names = [each.get("name") if isinstance(each, dict) else each for each in queues]
    return tuple(name for name in names if isinstance(name, str) and is_encodable(name))
