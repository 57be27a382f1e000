"""
Figures of the calls of tasks.
"""

from __future__ import annotations

import time
from typing import Annotated, TypedDict

from rsmq.web.fields import Field, Shape
from rsmq.web.routes.forms import may, show_as
from rsmq.web.send_fields import list_arguments
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope

_IN_STEPS = "in each step; the last one is not over."


class PercentilesJson(TypedDict):
    """Times of calls in seconds, at most 2 % wrong."""

    p50: Annotated[float, "The median."]
    p95: Annotated[float, "Longer than 95 % of them."]
    p99: Annotated[float, "Longer than 99 % of them."]


class TaskJson(TypedDict):
    """The figures of the calls of a task."""

    queue: Annotated[str, "Its queue."]
    task: Annotated[str, "Its name, or the type of a router's messages; empty without."]
    start_ms: Annotated[int, "Unix ms of the first step."]
    step: Annotated[int, "Seconds of a step."]
    calls: Annotated[int, "Calls that ended; of a batch one."]
    failed: Annotated[int, "Messages whose call failed, or could not begin."]
    retried: Annotated[int, "Messages that were hidden until a next attempt."]
    dead_letters: Annotated[int, "Messages that were moved to a dead-letter queue."]
    running: Annotated[int, "Calls that run now."]
    calls_per_minute: Annotated[float, "Calls, divided by the minutes of all steps."]
    wait: Annotated[PercentilesJson | None, "From the send to the first call; null without any."]
    duration: Annotated[PercentilesJson | None, "Of calls; null without any."]
    calls_by_step: Annotated[list[int], f"Calls {_IN_STEPS}"]
    failed_by_step: Annotated[list[int], f"Failed messages {_IN_STEPS}"]


class TasksJson(TypedDict):
    """The tasks."""

    read_ms: Annotated[int, "When they were read, Unix ms; workers write a minute 10 s after it."]
    tasks: Annotated[list[TaskJson], "By queue and name."]


async def _list(call: ApiCall) -> ApiAnswer[TasksJson]:
    queue, span = call.values.get("queue"), _SPAN.read(call.values)
    if queue is not None:
        call.allow(Scope.STATS, queue)
    names = [queue] if queue is not None else await call.walks.names()
    seen = [each for each in names if may(call, Scope.STATS, each)]
    read_ms = int(time.time() * 1000)
    found = await call.queues.task_figures(seen, span=span)
    return ApiAnswer({"read_ms": read_ms, "tasks": [show_as(TaskJson, each) for each in found]})


(_SPAN,) = list_arguments("task_figures")

ROUTES = (
    Route(
        "GET", "/tasks", Scope.STATS, "List how the calls of each task went.", _list,
        ("task_figures",),
        query=(
            Field("queue", Shape.TEXT, "Only the tasks of this queue."),
            _SPAN,
        ),
        result=TasksJson,
    ),
)  # fmt: skip
