"""
Figures of the calls of tasks.
"""

from __future__ import annotations

from dataclasses import asdict

from rsmq.history.call_records import CALL_SPANS
from rsmq.web.fields import Field, Shape, one_of
from rsmq.web.routes.forms import may
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope


async def _list(call: ApiCall) -> ApiAnswer:
    queue, span = call.values.get("queue"), call.values.get("span", "1h")
    if queue is not None:
        call.allow(Scope.STATS, queue)
    names = [queue] if queue is not None else await call.walks.names()
    seen = [each for each in names if may(call, Scope.STATS, each)]
    found = await call.queues.task_figures(seen, span=span)
    return ApiAnswer({"tasks": [asdict(each) for each in found]})


_IN_STEPS = "in each step; the last one is not over."
_PERCENTILES = "p50, p95 and p99 in seconds, at most 2 % wrong; null without any."
_TASK = (
    Field("queue", Shape.TEXT, "Its queue."),
    Field("task", Shape.TEXT, "Its name, or the type of a router's messages; empty without."),
    Field("start_ms", Shape.WHOLE, "Unix ms of the first step."),
    Field("step", Shape.WHOLE, "Seconds of a step."),
    Field("calls", Shape.WHOLE, "Calls that ended; of a batch one."),
    Field("failed", Shape.WHOLE, "Messages whose call failed, or could not begin."),
    Field("retried", Shape.WHOLE, "Messages that were hidden until a next attempt."),
    Field("dead_letters", Shape.WHOLE, "Messages that were moved to a dead-letter queue."),
    Field("running", Shape.WHOLE, "Calls that run now."),
    Field("calls_per_minute", Shape.NUMBER, "Calls, divided by the minutes of all steps."),
    Field("wait", Shape.OBJECT, f"From the send to the first call: {_PERCENTILES}"),
    Field("duration", Shape.OBJECT, f"Of calls: {_PERCENTILES}"),
    Field("calls_by_step", Shape.NUMBERS, f"Calls {_IN_STEPS}"),
    Field("failed_by_step", Shape.NUMBERS, f"Failed messages {_IN_STEPS}"),
)

ROUTES = (
    Route(
        "GET", "/tasks", Scope.STATS, "List how the calls of each task went.", _list,
        ("task_figures",),
        query=(
            Field("queue", Shape.TEXT, "Only the tasks of this queue."),
            Field(
                "span", Shape.TEXT, "How far back; 1h by default. Its steps are a minute, an hour, "
                "six hours or a day.", rule=one_of(*CALL_SPANS),
            ),
        ),
        result=(Field("tasks", Shape.OBJECTS, "By queue and name.", items=_TASK),),
    ),
)  # fmt: skip
