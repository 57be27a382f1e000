"""
Histories: messages sent and received in each minute or hour, and the gauges.
"""

from __future__ import annotations

from typing import Annotated, TypedDict

from rsmq.web.access.principals import ALL_QUEUES
from rsmq.web.routes.forms import QUEUE, show_as
from rsmq.web.send_fields import list_arguments
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope

_FROM, _TO, _STEP = _QUERY = list_arguments("history")
_COLUMN = "in each step; null where no process has recorded it."


class GapJson(TypedDict):
    """Messages of steps whose distribution is not known."""

    start_ms: Annotated[int, "Unix ms of its begin."]
    end_ms: Annotated[int, "Unix ms of its end."]
    sent: Annotated[int, "Messages that were sent between them."]
    received: Annotated[int, "Receives between them."]


class NamespaceHistoryJson(TypedDict):
    """The sums of the histories of all queues."""

    start_ms: Annotated[int, "Unix ms of the first step."]
    end_ms: Annotated[int, "Unix ms behind the last step."]
    step: Annotated[int, "Seconds of a step."]
    sent: Annotated[list[float | None], f"Messages that were sent {_COLUMN}"]
    received: Annotated[list[float | None], f"Receives {_COLUMN}"]
    visible: Annotated[list[float | None], f"The most visible messages {_COLUMN}"]
    in_flight: Annotated[list[float | None], f"The most received and hidden messages {_COLUMN}"]
    delayed: Annotated[list[float | None], f"The most delayed messages {_COLUMN}"]
    oldest_seconds: Annotated[list[float | None], f"The longest wait of a visible one {_COLUMN}"]
    gaps: Annotated[list[GapJson], "The sums of steps that were not recorded one by one."]
    total_sent: Annotated[int, "All messages that were sent, those of gaps included."]
    total_received: Annotated[int, "The same of receives."]


class HistoryJson(NamespaceHistoryJson):
    """The history of a queue."""


async def _read(call: ApiCall) -> ApiAnswer:
    values = call.values
    if QUEUE not in call.names:
        call.allow(Scope.STATS, ALL_QUEUES)  # sums show something of every queue
    history = await call.queues.history(
        call.names.get(QUEUE),
        start=_FROM.read(values),
        end=_TO.read(values),
        step=_STEP.read(values),
    )
    return ApiAnswer(show_as(HistoryJson, history))


ROUTES = (
    Route(
        "GET", "/queues/{queue}/history", Scope.STATS, "Read the history of a queue in steps.",
        _read, ("history",), query=_QUERY, result=HistoryJson,
    ),
    Route(
        "GET", "/history", Scope.STATS, "Read the sums of the histories of all queues.", _read,
        ("history",), query=_QUERY, result=NamespaceHistoryJson,
    ),
)  # fmt: skip
