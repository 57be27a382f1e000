"""
Marks of moments, which charts show.
"""

from __future__ import annotations

from rsmq.operations.marks import MARK_CALL, mark_facts
from rsmq.web.audit import add_entry
from rsmq.web.fields import Field, Shape
from rsmq.web.send_fields import list_arguments
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope
from rsmq.wire.names import decode_name


async def _mark(call: ApiCall) -> ApiAnswer:
    facts = mark_facts(call.values["text"], call.caller, call.address)
    return ApiAnswer({"id": decode_name(await add_entry(call.queues, facts))}, status=201)


_METHOD, _, _PATH = MARK_CALL.partition(" ")

ROUTES = (
    Route(
        _METHOD, _PATH, Scope.MANAGE, "Mark this moment in charts, as of a deploy.", _mark,
        ("mark",),
        body=list_arguments("mark"),
        answers={201: "marked"},
        result=(Field("id", Shape.TEXT, "The id of its entry in the audit stream."),),
        is_preview=True,  # it is a record itself
    ),
)  # fmt: skip
