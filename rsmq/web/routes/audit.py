"""
The audit stream: changes and removals with their callers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, TypedDict

from rsmq.errors import InvalidFormat, InvalidValue
from rsmq.web.access.principals import ALL_QUEUES
from rsmq.web.audit import read_entries
from rsmq.web.fields import Field, Shape, number_of
from rsmq.web.routes.forms import may
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope

_MAX_ENTRIES = 1000
_FILTERS = ("user", "queue", "call")
_ENTRY = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")


class AuditJson(TypedDict):
    """A part of the audit stream."""

    entries: Annotated[
        list[dict[str, str]],
        "One at the begin of each call, and one at its end. That of the end of a PATCH of a queue "
        "has changes, as a text of JSON: by attribute the old and the new value. Calls on messages "
        "have their destination, and up to ten ids.",
    ]
    before: Annotated[str | None, "For the next page; null after the last."]


async def _read_audit(call: ApiCall) -> ApiAnswer[AuditJson]:
    limit, before = call.values.get("limit", 100), call.values.get("before")
    if not 1 <= limit <= _MAX_ENTRIES:
        raise InvalidValue("limit", 1, _MAX_ENTRIES, value=limit)
    if before is not None and not _ENTRY.fullmatch(before):
        raise InvalidFormat("before", value=before, hint="It is the id of an entry.")
    chosen = {name: call.values[name] for name in _FILTERS if name in call.values}

    def fits(entry: Mapping[str, str]) -> bool:
        is_chosen = all(entry.get(name) == value for name, value in chosen.items())
        return is_chosen and may(call, Scope.AUDIT, entry.get("queue") or ALL_QUEUES)

    entries, behind = await read_entries(call.queues, limit, before, fits)
    for each in entries:
        if "destination" in each and not may(call, Scope.STATS, each["destination"]):
            del each["destination"]
    return ApiAnswer({"entries": entries, "before": behind})


ROUTES = (
    Route(
        "GET", "/audit", Scope.AUDIT, "Read who has changed or removed what, the last first.",
        _read_audit,
        query=(
            number_of("Entries", _MAX_ENTRIES, 100),
            Field("before", Shape.TEXT, "The id of an entry: only earlier ones."),
            Field("user", Shape.TEXT, "Only calls of this user."),
            Field("queue", Shape.TEXT, "Only calls on this queue."),
            Field("call", Shape.TEXT, "Only this call, as in POST /queues/{queue}:purge."),
        ),
        result=AuditJson,
    ),
)  # fmt: skip
