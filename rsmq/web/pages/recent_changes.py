"""
Recent changes and their callers: the last calls of the audit stream, for what is wrong now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rsmq.web.access.principals import ALL_QUEUES, EVERYONE
from rsmq.web.pages.formats import show_name, show_time
from rsmq.web.pages.phrases import changes_of
from rsmq.web.pages.table import PageCall
from rsmq.web.table import Scope

#: Entries that are read, in one command; a call has two.
_ENTRIES = 500
#: A change of attributes is said for so long.
_RECENT_MS = 3_600_000
#: The end of a call is recorded a little after its effect.
_BEFORE_MS = 1000
_ACTS = {
    "paused": ("POST /queues/{queue}:pause", "paused it"),
    "purged": ("POST /queues/{queue}:purge", "purged it"),
}
_ATTRIBUTES, _MOVE = "PATCH /queues/{queue}", "POST /queues/{queue}/messages:move"

Entries = Sequence[Mapping[str, Any]]


async def read_changes(call: PageCall, *, lasting: bool = False) -> Entries:
    """
    Return the last entries, the newest first: one command; none if the caller may not read all.

    Args:
        lasting: whether they may be a minute old, unless an action was run since.
    """
    if not call.may(Scope.AUDIT, ALL_QUEUES):
        return ()
    read = call.read_lasting if lasting else call.read
    entries: Entries = (await read("/audit", limit=_ENTRIES))["entries"]
    return entries


def say_who(entries: Entries, kind: str, queue: str, since_ms: float) -> str:
    """
    Return who has paused or purged a queue, as a sentence; empty if it is not known.

    Args:
        kind: of the alert, ``paused`` or ``purged``.
        since_ms: Unix ms of the pause or the purge.
    """
    path, did = _ACTS[kind]
    for entry in _done(entries, path):
        if entry["queue"] == queue and _at_ms(entry) >= since_ms - _BEFORE_MS:
            if entry["user"] == EVERYONE.name:
                break
            return f"{_when_and_who(entry)} {did}."
    return ""


def say_changes(entries: Entries, queues: Sequence[str], now_ms: float) -> list[str]:
    """Return who has changed the visibility timeout of queues in the last hour, as sentences."""
    return [
        f"{_when_and_who(entry)} changed attributes of {show_name(entry['queue'])}: "
        f"{', '.join(changes)}."
        for entry in _done(entries, _ATTRIBUTES)
        if entry["queue"] in queues
        and now_ms - _at_ms(entry) < _RECENT_MS
        and (changes := [each for each in changes_of(entry) if each.startswith(_TIMEOUT)])
    ]


_TIMEOUT = "visibility timeout"


def say_move(entries: Entries, queue: str, id: str) -> str:
    """Return who has moved a message to a queue, as a sentence; empty if it is not known."""
    for entry in _moves_to(entries, queue):
        if id in entry.get("ids", "").split(","):
            return f"{_when_and_who(entry)} moved it here from {show_name(entry['queue'])}."
    return ""


def say_moves(entries: Entries, queue: str) -> str:
    """Return who has moved messages to a queue last, as a sentence; empty if it is not known."""
    for entry in _moves_to(entries, queue):
        return f"{_when_and_who(entry)} moved messages of {show_name(entry['queue'])} here."
    return ""


def moved_ids(entries: Entries, queue: str) -> set[str]:
    """Return the ids of messages that a user has moved to a queue, as far as they are known."""
    return {id for each in _moves_to(entries, queue) for id in each.get("ids", "").split(",")}


def _moves_to(entries: Entries, queue: str) -> Iterator[Mapping[str, Any]]:
    return (each for each in _done(entries, _MOVE) if each.get("destination") == queue)


def _done(entries: Entries, path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the ends of the calls of an entry of the API that have succeeded."""
    for each in entries:
        is_end = each.get("phase") == "end" and each.get("outcome", "").startswith("2")
        if is_end and each.get("call") == path and {"queue", "user"} <= each.keys():
            yield each


def _when_and_who(entry: Mapping[str, Any]) -> str:
    """Return the begin of a sentence; with the name of a user, it would have a small letter."""
    who = "a caller" if entry["user"] == EVERYONE.name else show_name(entry["user"])
    return f"At {show_time(_at_ms(entry))} {who}"


def _at_ms(entry: Mapping[str, Any]) -> float:
    return float(entry["id"].partition("-")[0])
