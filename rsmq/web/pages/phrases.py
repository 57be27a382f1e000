"""
The deeds of people, in words: the calls of the audit stream, and those that charts mark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rsmq.operations.marks import MARK_CALL
from rsmq.web.access.principals import ALL_QUEUES, EVERYONE
from rsmq.web.pages.actions import ACTIONS
from rsmq.web.pages.charts import Mark
from rsmq.web.pages.formats import show_name, show_time
from rsmq.web.pages.recent_changes import ENTRIES, at_ms_of, changes_of, ends_of
from rsmq.web.pages.table import PageCall
from rsmq.web.routes.audit import AuditJson
from rsmq.web.table import Scope

#: The text of a call of the API: of actions, of calls that no page has, and of operations that have
#: ended.
PHRASES = {
    **{each.route: each.phrase for each in reversed(ACTIONS) if each.phrase},
    "POST /queues/{queue}:sweep-groups": "swept groups of {queue}",
    "DELETE /queues/{queue}/messages/{id}": "deleted message {target} of {queue}",
    "PATCH /queues/{queue}/messages/{id}": "hid or showed message {target} of {queue}",
    "POST /queues/{queue}/messages:preview": "previewed a change of messages of {queue}",
    "POST /queues/{queue}/messages:recover": "received old messages of {queue} again",
    "POST /marks": "marked {target}",
    "operation redrive": "ended the redrive of {queue}",
    "operation release": "ended the release of messages of {queue}",
    "operation release-all": "ended the release of all messages of {queue}",
    "operation sweep": "ended the sweep of dead letters of {queue}",
    "operation sweep-expired": "ended the sweep of expired messages of {queue}",
    "operation delete": "ended the deletion of messages of {queue}",
    "operation move": "ended the move of messages of {queue}",
}
_PLACE = re.compile(r"\{(queue|target|destination)\}")
#: The text for a part that an entry does not have.
_UNKNOWN = {"queue": "all queues", "destination": "another queue"}

#: Changes of a queue that charts mark, and how many moments they mark at most.
_CHANGES = (
    *(f"POST /queues/{{queue}}:{each}" for each in ("pause", "purge", "resume")),
    "PATCH /queues/{queue}", "PUT /queues/{queue}/limits", "DELETE /queues/{queue}/limits",
)  # fmt: skip
_MARKS = 30


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
        found = await call.read_lasting(AuditJson, queue=queue, limit=ENTRIES)
        entries += found["entries"]
    done = {each["id"]: each for path in (MARK_CALL, *_CHANGES) for each in ends_of(entries, path)}
    moments = sorted(map(_moment_of, done.values()), key=lambda each: each.at)
    shares = (
        replace(each, at=(each.at - start_ms) / max(end_ms - start_ms, 1)) for each in moments
    )
    return [each for each in shares if 0 <= each.at <= 1][-_MARKS:]


def _moment_of(entry: Mapping[str, Any]) -> Mark:
    at_ms, is_change = at_ms_of(entry), entry["call"] != MARK_CALL
    who = show_name(entry["user"])
    if not is_change:
        text = f"{show_name(entry['target'])} (marked by {who})" if who else entry["target"]
    else:
        deed = "".join(words for _, words in words_of(entry))
        text = f"{'a caller' if entry['user'] == EVERYONE.name else who} {show_name(deed)}"
        text = ": ".join([text, *filter(None, [", ".join(changes_of(entry))])])
    return Mark(at_ms, f"{show_time(at_ms)}: {text}", is_change)
