"""
Recent changes and their callers: the last calls of the audit stream, for what is wrong now.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rsmq.operations.marks import MARK_CALL
from rsmq.trash.deletion import DeletionKind
from rsmq.vocabulary.queues import SET
from rsmq.vocabulary.sends import ValueKind
from rsmq.web.access.principals import ALL_QUEUES, EVERYONE
from rsmq.web.pages.formats import show_name, show_time
from rsmq.web.pages.table import PageCall
from rsmq.web.routes.audit import AuditJson
from rsmq.web.routes.undo import DeletionsJson
from rsmq.web.table import Scope

#: Entries that are read, in one command; a call has two.
ENTRIES = 500
#: A change of attributes is said for so long.
_RECENT_MS, _MINUTE_MS = 3_600_000, 60_000
#: The end of a call is recorded a little after its effect.
_BEFORE_MS = 1000
_STOP = "POST /workers/{worker}:stop"
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
    entries: Entries = (await read(AuditJson, limit=ENTRIES))["entries"]
    return entries


def say_who(entries: Entries, kind: str, queue: str, since_ms: float) -> str:
    """
    Return who has paused or purged a queue, as a sentence; empty if it is not known.

    Args:
        kind: of the alert, ``paused`` or ``purged``.
        since_ms: Unix ms of the pause or the purge.
    """
    for entry in ends_of(entries, f"POST /queues/{{queue}}:{kind[:-1]}"):
        if entry["queue"] == queue and at_ms_of(entry) >= since_ms - _BEFORE_MS:
            if entry["user"] == EVERYONE.name:
                break
            return f"{_when_and_who(entry)} {kind} it."
    return ""


def say_changes(entries: Entries, queues: Sequence[str], now_ms: float) -> list[str]:
    """Return who has changed the visibility timeout of queues in the last hour, as sentences."""
    return [
        f"{_when_and_who(entry)} changed attributes of {show_name(entry['queue'])}: "
        f"{', '.join(changes)}."
        for entry in ends_of(entries, _ATTRIBUTES)
        if entry["queue"] in queues
        and now_ms - at_ms_of(entry) < _RECENT_MS
        and (changes := [each for each in changes_of(entry) if each.startswith(_TIMEOUT)])
    ]


def say_marks(entries: Entries, minute_ms: float) -> list[str]:
    """
    Return the last mark of an hour, as a sentence: a deploy may be the cause.

    Args:
        minute_ms: Unix ms of the begin of the minute in which a fault began. A later mark is not
            its cause.
    """
    end_ms = minute_ms + _MINUTE_MS
    for entry in entries:
        is_mark = entry.get("call") == MARK_CALL and entry.get("phase") == "end"
        if is_mark and end_ms - _RECENT_MS < at_ms_of(entry) < end_ms:
            return [f"{_when_and_who(entry)} noted a change: {show_name(entry['target'])}."]
    return []


def say_stop(entries: Entries, worker: str) -> str:
    """Return who has stopped a worker last, as a sentence; empty if it is not known."""
    for entry in ends_of(entries, _STOP):
        if entry.get("target") == worker:
            return f"{_when_and_who(entry)} stopped it."
    return ""


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
    return (each for each in ends_of(entries, _MOVE) if each.get("destination") == queue)


def ends_of(entries: Entries, path: str) -> Iterator[Mapping[str, Any]]:
    """Yield the ends of the calls of an entry of the API that have succeeded."""
    for each in entries:
        is_end = each.get("phase") == "end" and each.get("outcome", "").startswith("2")
        if is_end and each.get("call") == path and {"queue", "user"} <= each.keys():
            yield each


def _when_and_who(entry: Mapping[str, Any]) -> str:
    """Return the begin of a sentence; with the name of a user, it would have a small letter."""
    who = "a caller" if entry["user"] == EVERYONE.name else show_name(entry["user"])
    return f"At {show_time(at_ms_of(entry))} {who}"


def at_ms_of(entry: Mapping[str, Any]) -> float:
    """Return the time of an entry, in Unix ms."""
    return float(entry["id"].partition("-")[0])


def changes_of(entry: Mapping[str, Any]) -> list[str]:
    """Return what a call changed from what to what, as in "visibility timeout 30 s \u2192 3 s"."""
    return [
        f"{SET.options[name].title} {_show(name, old)} \u2192 {_show(name, new)}"
        for name, (old, new) in changed_values(entry).items()
        if name in SET.options
    ]


def changed_values(entry: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Return the old and the new values of an entry of the audit stream, by attribute."""
    try:
        found = json.loads(entry.get("changes", "{}"))
        return {str(name): (old, new) for name, (old, new) in found.items()}
    except (ValueError, TypeError, AttributeError):  # another program wrote it
        return {}


def _show(name: str, value: object) -> str:
    if value is None:
        return "none"
    is_time = SET.options[name].kind is ValueKind.SECONDS and isinstance(value, int | float)
    return f"{value:,} s" if is_time else show_name(str(value))


async def find_deletion(call: PageCall, queue: str) -> Mapping[str, Any] | None:
    """Return the last deletion of a queue, if the caller can undo it; None without one."""
    for each in (await call.read(DeletionsJson))["deletions"]:
        is_of_queue = each["queue"] == queue and each["kind"] == DeletionKind.DELETE_QUEUE
        if is_of_queue and each["may_undo"]:
            return {**each}
    return None
