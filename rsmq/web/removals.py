"""
The messages that people have moved or deleted, as far as the audit stream has it.

A message that killed its workers is not in flight any more when a user has moved it. Then only
these records say which one it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rsmq.errors import QueueNotFound
from rsmq.explain import observe_message
from rsmq.explain.alerts.facts import RemovedMessage
from rsmq.web.access.principals import EVERYONE
from rsmq.web.audit import read_entries
from rsmq.web.client import Client

#: Entries and messages that are looked at, the newest first: two commands for each message.
_ENTRIES, _MAX_MESSAGES = 500, 10
_MOVE = "POST /queues/{queue}/messages:move"
_DELETIONS = {
    "POST /queues/{queue}/messages:delete",
    "DELETE /queues/{queue}/messages/{id}",
}


async def read_removals(
    queues: Client, may_see: Callable[[str], bool], since_ms: int
) -> list[RemovedMessage]:
    """
    Return the last messages that were moved or deleted since a time, the newest first.

    A message that has left the queue to which it was moved is not among them.

    Args:
        may_see: whether the caller may know what happens in a queue.
        since_ms: Unix ms.
    """

    def fits(entry: Mapping[str, str]) -> bool:
        is_done = entry.get("phase") == "end" and entry.get("outcome", "").startswith("2")
        is_shown = all(may_see(entry[each]) for each in ("queue", "destination") if each in entry)
        return is_done and is_shown and entry.get("call") in {_MOVE, *_DELETIONS}

    entries, _ = await read_entries(queues, _ENTRIES, None, fits, since_ms)
    chosen = [(entry, id) for entry in entries for id in _ids_of(entry)][:_MAX_MESSAGES]
    found = [await _read_removal(queues, entry, id) for entry, id in chosen]
    return [each for each in found if each is not None]


def _ids_of(entry: Mapping[str, str]) -> list[str]:
    """Return the ids of the messages; of many that were deleted, each may be innocent."""
    done = entry.get("done", "")
    if entry["call"] in _DELETIONS and done.isdecimal() and int(done) > _MAX_MESSAGES:
        return []
    return [each for each in (entry.get("ids") or entry.get("target") or "").split(",") if each]


async def _read_removal(queues: Client, entry: Mapping[str, str], id: str) -> RemovedMessage | None:
    user = entry.get("user")
    by = None if user == EVERYONE.name else user
    at_ms, queue = int(entry["id"].partition("-")[0]), entry.get("queue", "")
    if entry["call"] in _DELETIONS:
        return RemovedMessage(queue, id, by, at_ms, None, 0)
    destination = entry.get("destination", "")
    try:
        now = await observe_message(queues, destination, id)
    except QueueNotFound:
        return None
    if not now.is_there:
        return None
    return RemovedMessage(queue, id, by, at_ms, destination, now.lost_receives)
