"""
Recent changes and their callers: the last calls of the audit stream, for what is wrong now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rsmq.operations.marks import MARK_CALL
from rsmq.web.access.principals import ALL_QUEUES, EVERYONE
from rsmq.web.pages.charts import Mark
from rsmq.web.pages.formats import show_name, show_time
from rsmq.web.pages.phrases import changes_of, words_of
from rsmq.web.pages.table import PageCall
from rsmq.web.routes.audit import AuditJson
from rsmq.web.table import Scope

#: Entries that are read, in one command; a call has two.
_ENTRIES = 500
#: A change of attributes is said for so long.
_RECENT_MS, _MINUTE_MS = 3_600_000, 60_000
#: The end of a call is recorded a little after its effect.
_BEFORE_MS = 1000
_ACTS = {
    "paused": ("POST /queues/{queue}:pause", "paused it"),
    "purged": ("POST /queues/{queue}:purge", "purged it"),
}
_STOP = "POST /workers/{worker}:stop"
_ATTRIBUTES, _MOVE = "PATCH /queues/{queue}", "POST /queues/{queue}/messages:move"

#: Changes of a queue that charts mark, and how many moments they mark at most.
_CHANGES = (
    *(path for path, _ in _ACTS.values()), _ATTRIBUTES, "POST /queues/{queue}:resume",
    "PUT /queues/{queue}/limits", "DELETE /queues/{queue}/limits",
)  # fmt: skip
_MARKS = 30

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
    entries: Entries = (await read(AuditJson, limit=_ENTRIES))["entries"]
    return entries


async def read_marks(
    call: PageCall, queue: str | None, start_ms: float, end_ms: float
) -> list[Mark]:
    """
    Return the moments of a time, the first one first: marks, and changes of a queue.

    Two commands, and more if there are many calls; none if the caller may not read them. They may
    be a minute old, unless an action was run since.
    """
    entries: list[Mapping[str, Any]] = []
    if call.may(Scope.AUDIT, ALL_QUEUES):
        found = await call.read_lasting(AuditJson, call=MARK_CALL, limit=_MARKS)
        entries += found["entries"]
    if queue is not None and call.may(Scope.AUDIT, queue):
        found = await call.read_lasting(AuditJson, queue=queue, limit=_ENTRIES)
        entries += found["entries"]
    done = {each["id"]: each for path in (MARK_CALL, *_CHANGES) for each in _done(entries, path)}
    moments = sorted(map(_moment_of, done.values()), key=lambda each: each.at)
    shares = (
        replace(each, at=(each.at - start_ms) / max(end_ms - start_ms, 1)) for each in moments
    )
    return [each for each in shares if 0 <= each.at <= 1][-_MARKS:]


def _moment_of(entry: Mapping[str, Any]) -> Mark:
    at_ms, is_change = _at_ms(entry), entry["call"] != MARK_CALL
    who = show_name(entry["user"])
    if not is_change:
        text = f"{show_name(entry['target'])} (marked by {who})" if who else entry["target"]
    else:
        deed = "".join(words for _, words in words_of(entry))
        text = f"{'a caller' if entry['user'] == EVERYONE.name else who} {show_name(deed)}"
        text = ": ".join([text, *filter(None, [", ".join(changes_of(entry))])])
    return Mark(at_ms, f"{show_time(at_ms)}: {text}", is_change)


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
        if is_mark and end_ms - _RECENT_MS < _at_ms(entry) < end_ms:
            return [f"{_when_and_who(entry)} noted a change: {show_name(entry['target'])}."]
    return []


def say_stop(entries: Entries, worker: str) -> str:
    """Return who has stopped a worker last, as a sentence; empty if it is not known."""
    for entry in _done(entries, _STOP):
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
