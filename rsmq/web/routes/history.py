"""
Histories: messages sent and received in each minute or hour, and the gauges.
"""

from __future__ import annotations

from dataclasses import asdict

from rsmq.web.access.principals import ALL_QUEUES
from rsmq.web.fields import Field, Shape
from rsmq.web.routes.forms import QUEUE
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope

_QUERY = (
    Field("from", Shape.TIME, "The begin; an hour before the end by default."),
    Field("to", Shape.TIME, "The end; now by default."),
    Field("step", Shape.WHOLE, "Seconds of a step: 60 by default, a multiple of it, to 86,400."),
)
_COLUMN = "in each step; null where no process has recorded it."
_RESULT = (
    Field("start_ms", Shape.WHOLE, "Unix ms of the first step."),
    Field("end_ms", Shape.WHOLE, "Unix ms behind the last step."),
    Field("step", Shape.WHOLE, "Seconds of a step."),
    Field("sent", Shape.NUMBERS, f"Messages that were sent {_COLUMN}"),
    Field("received", Shape.NUMBERS, f"Receives {_COLUMN}"),
    Field("visible", Shape.NUMBERS, f"The most visible messages {_COLUMN}"),
    Field("in_flight", Shape.NUMBERS, f"The most received and hidden messages {_COLUMN}"),
    Field("delayed", Shape.NUMBERS, f"The most delayed messages {_COLUMN}"),
    Field(
        "oldest_seconds", Shape.NUMBERS,
        f"The longest time that a message was visible without being received, {_COLUMN}",
    ),
    Field("gaps", Shape.OBJECTS, "What is known of steps that were not recorded one by one."),
    Field("total_sent", Shape.WHOLE, "All messages that were sent, those of gaps included."),
    Field("total_received", Shape.WHOLE, "The same of receives."),
)  # fmt: skip


async def _read(call: ApiCall) -> ApiAnswer:
    values = call.values
    if QUEUE not in call.names:
        call.allow(Scope.STATS, ALL_QUEUES)  # sums show something of every queue
    history = await call.queues.history(
        call.names.get(QUEUE),
        start=values.get("from"),
        end=values.get("to"),
        step=values.get("step", 60),
    )
    return ApiAnswer(asdict(history))


ROUTES = (
    Route(
        "GET", "/queues/{queue}/history", Scope.STATS, "Read the history of a queue in steps.",
        _read, ("history",), query=_QUERY, result=_RESULT,
    ),
    Route(
        "GET", "/history", Scope.STATS, "Read the sums of the histories of all queues.", _read,
        ("history",), query=_QUERY, result=_RESULT,
    ),
)  # fmt: skip
