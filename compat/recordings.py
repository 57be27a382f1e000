"""
The recordings in golden/: what real clients did to Redis, step by step, as data.

A step has the call, the client's result, the whole keyspace after it, and the server's time before
and after it. Ids and clock readings differ in every run, so states are not compared byte by byte:
``change`` returns what a step changed, with ids as ``<new>`` and times as seconds from now.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "golden"

#: The long bodies, which the recordings contain only as a digest.
_LONG = {
    hashlib.sha256(text.encode()).hexdigest(): text
    for text in (
        "x" * 1024,
        "x" * 1025,
        "x" * 65536,
        "x" * 65537,
        "y" * 70000,
        "é" * 1024,
        "e\N{COMBINING ACUTE ACCENT}" * 1024,
        "😀" * 512,
        "😀" * 513,
        "😀" * 1024,
        "😀" * 1025,
    )
}

State = dict[str, dict[str, Any]]


def names() -> list[str]:
    """Return the clients with a complete recorded session, as ``client-version``."""
    return sorted(
        path.name.removesuffix(".json.gz")
        for path in FOLDER.glob("*.json.gz")
        if not path.name.endswith(".probes.json.gz")
    )


def load(name: str) -> dict[str, Any]:
    """
    Return a recording, by the name of its file without ``.json.gz``.

    rsmq_async before 10.0 puts no colon after the namespace. Users who share its queues set its
    namespace to ``rsmq:``, so this function adds the colon to keys without it.
    """
    recording = _decode(json.loads(gzip.decompress((FOLDER / f"{name}.json.gz").read_bytes())))
    for step in recording.get("steps", ()):
        if "state" in step:
            step["state"] = {
                re.sub("^rsmq(?!:)", "rsmq:", key): entry for key, entry in step["state"].items()
            }
    return recording


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$b64" in value:
        return base64.b64decode(value["$b64"])
    if "$sha256" in value:
        return _LONG[value["$sha256"]]
    return {name: _decode(item) for name, item in value.items()}


def restore(raw: Any, state: State, shift_ms: int = 0) -> None:
    """Write a recorded keyspace into an empty database, with all scores moved by ``shift_ms``."""
    for key, entry in state.items():
        value = entry["value"]
        if entry["type"] == "hash":
            raw.hset(key, mapping=value)
        elif entry["type"] == "set":
            raw.sadd(key, *value)
        elif entry["type"] == "string":
            raw.set(key, value)
        else:
            raw.zadd(key, {member: float(score) + shift_ms for member, score in value})


def read(raw: Any) -> State:
    """Return the whole database, in the form of the recordings."""
    state: State = {}
    for key in sorted(raw.keys("*")):
        kind = raw.type(key).decode()
        assert raw.ttl(key) == -1, f"{key} expires"
        if kind == "hash":
            value: Any = {_text(name): _text(item) for name, item in raw.hgetall(key).items()}
        elif kind == "set":
            value = sorted(map(_text, raw.smembers(key)))
        elif kind == "zset":
            stored = raw.zrange(key, 0, -1, withscores=True)
            value = [[_text(member), repr(score)] for member, score in stored]
        else:
            value = _text(raw.get(key))
        state[key.decode()] = {"type": kind, "value": value}
    return state


def _text(raw: bytes) -> Any:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def change(before: State, after: State, t0: list[int], t1: list[int]) -> dict[str, Any]:
    """
    Return what a step changed in the keyspace, without ids and clock readings.

    Args:
        before: the keyspace before it.
        after: the keyspace after it.
        t0: the server's time before it, seconds and microseconds.
        t1: the server's time after it.

    Returns:
        For each key that differs: None if it was deleted, otherwise its type, the removed and the
        written items. A time that the step read from the clock is ``now``, or ``now+30`` for a
        score 30 seconds later, to the millisecond; any other time is unchanged.
    """
    clock = _Clock(t0, t1)
    changes: dict[str, Any] = {}
    for key in sorted({*before, *after}):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        if new is None:
            changes[key] = None
            continue
        old_items, new_items = _items(old), _items(new)
        ids = _ids(after) - _ids(before)
        changes[key] = {
            "type": new["type"],
            "taken": sorted(set(old_items) - set(new_items)),
            "put": {
                clock.name(name, ids): clock.value(name, value, new["type"])
                for name, value in new_items.items()
                if name not in old_items or old_items[name] != value
            },
        }
    return changes


def _items(entry: dict[str, Any] | None) -> dict[str, Any]:
    """Return the fields of a hash or the members of a set, each with its value."""
    if entry is None:
        return {}
    if entry["type"] == "zset":
        return {member: float(score) for member, score in entry["value"]}
    if entry["type"] == "set":
        return dict.fromkeys(entry["value"], "")
    return entry["value"] if entry["type"] == "hash" else {"": entry["value"]}


def _ids(state: State) -> set[str]:
    return {m for entry in state.values() if entry["type"] == "zset" for m, _ in entry["value"]}


class _Clock:
    """A converter that replaces times of one step by their distance from now."""

    def __init__(self, t0: list[int], t1: list[int]) -> None:
        self._us = (t0[0] * 1_000_000 + t0[1], t1[0] * 1_000_000 + t1[1])
        self._ms = (self._us[0] // 1000, self._us[1] // 1000)
        self._s = (t0[0], t1[0])

    def name(self, name: str, new_ids: set[str]) -> str:
        id, colon, rest = name.partition(":")
        if id not in new_ids:
            return name
        is_plain = len(id) == 32 and self._us[0] <= int(id[:10], 36) <= self._us[1]
        return f"{'<new>' if is_plain else '<odd id>'}{colon}{rest}"

    def value(self, name: str, value: Any, kind: str) -> Any:
        if kind == "zset":
            return self._score(value)
        if name in ("created", "modified") and value.isdecimal():
            return "now" if self._s[0] <= int(value) <= self._s[1] else value
        if name.endswith(":fr"):
            return "now" if self._ms[0] <= float(value) <= self._ms[1] else value
        return value

    def _score(self, score: float) -> str:
        seconds = round((score - self._ms[0]) / 1000)
        if self._ms[0] <= score - seconds * 1000 <= self._ms[1]:
            return f"now+{seconds}"
        return f"{score:.0f}"
