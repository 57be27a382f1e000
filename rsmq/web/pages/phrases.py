"""
The deeds of people, in words: the calls of the audit stream.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from rsmq.vocabulary.queues import SET
from rsmq.vocabulary.sends import ValueKind
from rsmq.web.pages.formats import show_name

#: The text of a call of the API, or with an operation that has ended.
PHRASES = {
    "PUT /queues/{queue}": "created the queue {queue}",
    "PATCH /queues/{queue}": "changed attributes of {queue}",
    "DELETE /queues/{queue}": "deleted the queue {queue}",
    "POST /queues/{queue}:pause": "paused {queue}",
    "PUT /queues/{queue}/limits": "set the limits of {queue}",
    "DELETE /queues/{queue}/limits": "removed the limits of {queue}",
    "POST /queues/{queue}:resume": "resumed {queue}",
    "POST /queues/{queue}:purge": "purged {queue}",
    "POST /queues/{queue}:release-all": "released all messages in flight of {queue}",
    "POST /queues/{queue}:sweep": "swept dead letters of {queue}",
    "POST /queues/{queue}:sweep-expired": "swept expired messages of {queue}",
    "POST /queues/{queue}:sweep-groups": "swept groups of {queue}",
    "POST /queues/{queue}:redrive": "redrove dead letters of {queue}",
    "PUT /queues/{queue}/dead-letter-policy": "set the dead-letter policy of {queue}",
    "DELETE /queues/{queue}/dead-letter-policy": "removed the dead-letter policy of {queue}",
    "DELETE /queues/{queue}/messages/{id}": "deleted message {target} of {queue}",
    "PATCH /queues/{queue}/messages/{id}": "hid or showed message {target} of {queue}",
    "POST /queues/{queue}/messages:delete": "deleted messages of {queue}",
    "POST /queues/{queue}/messages:visibility": "hid messages of {queue}",
    "POST /queues/{queue}/messages:release": "released messages of {queue}",
    "POST /queues/{queue}/messages:move": "moved messages of {queue} to {destination}",
    "POST /queues/{queue}/messages:preview": "previewed a change of messages of {queue}",
    "POST /queues/{queue}/messages:recover": "received old messages of {queue} again",
    "POST /queues/{queue}/jobs/{id}:cancel": "cancelled job {target} of {queue}",
    "POST /flows/{flow}:cancel": "cancelled flow {target}",
    "POST /workers/{worker}:release": "released the messages of worker {target}",
    "POST /workers/{worker}:pause": "paused worker {target}",
    "POST /workers/{worker}:resume": "resumed worker {target}",
    "POST /workers/{worker}:stop": "stopped worker {target}",
    "POST /workers/{worker}:running": "asked worker {target} what it runs",
    "PUT /workers/{worker}/concurrency": "changed the concurrency of worker {target}",
    "PUT /schedules/{schedule}": "stored the schedule {target}",
    "DELETE /schedules/{schedule}": "deleted the schedule {target}",
    "POST /schedules/{schedule}:pause": "paused the schedule {target}",
    "POST /schedules/{schedule}:resume": "resumed the schedule {target}",
    "POST /schedules/{schedule}:run": "ran the schedule {target}",
    "PUT /queues/{queue}/subscribers/{subscriber}": "stored the subscriber {target} of {queue}",
    "DELETE /queues/{queue}/subscribers/{subscriber}": "removed the subscriber {target} of {queue}",
    "POST /webhooks:resume": "resumed pushes of {queue}",
    "POST /webhooks:forget": "forgot push targets of {queue}",
    "PUT /alert-targets/{target}": "stored the target {target} of alerts",
    "DELETE /alert-targets/{target}": "removed the target {target} of alerts",
    "POST /alert-targets/{target}:test": "tested the target {target} of alerts",
    "PUT /alert-silences/{kind}": "silenced alerts ({target}) of {queue}",
    "DELETE /alert-silences/{kind}": "ended a silence of alerts ({target}) of {queue}",
    "POST /marks": "marked {target}",
    "POST /doctor:repair": "repaired {queue}",
    "POST /undo/{id}": "undid the deletion {target} of {queue}",
    "POST /operations/{operation}:cancel": "cancelled operation {target}",
    "POST /operations/{operation}:pause": "paused operation {target}",
    "POST /operations/{operation}:resume": "resumed operation {target}",
    "operation redrive": "ended the redrive of {queue}",
    "operation release-all": "ended the release of all messages of {queue}",
    "operation sweep": "ended the sweep of dead letters of {queue}",
    "operation sweep-expired": "ended the sweep of expired messages of {queue}",
    "operation delete": "ended the deletion of messages of {queue}",
    "operation move": "ended the move of messages of {queue}",
}
_PLACE = re.compile(r"\{(queue|target|destination)\}")
#: The text for a part that an entry does not have.
_UNKNOWN = {"queue": "all queues", "destination": "another queue"}


def words_of(entry: Mapping[str, Any]) -> list[tuple[str, str]]:
    """
    Return what a call did, in parts: ``text``, ``queue`` or ``target``, with the words of each.

    A call of all queues, and one of another version of this library, has no name of its own.
    """
    parts = []
    call = entry.get("call", "")
    phrase = PHRASES.get(call)
    if phrase is None:
        return [("text", f"called {call}")]
    for number, part in enumerate(_PLACE.split(phrase)):
        if number % 2 == 0:
            parts.append(("text", part))
        elif entry.get(part):
            kind = "queue" if part == "destination" else part
            parts.append((kind, entry[part]))
        else:
            parts.append(("text", _UNKNOWN.get(part, "something")))
    return [each for each in parts if each[1]]


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
