"""
One field for all: queues, messages, jobs, keys, groups, tasks, workers and flows by their names.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated, TypedDict

from rsmq.control.operations import list_workers, parse_workers
from rsmq.errors import FlowNotFound, InvalidFormat, RSMQError
from rsmq.jobs.flows.asyncio_ import AsyncFlowHandle
from rsmq.search.everywhere import QUEUES_PER_STEP, FoundPlace, find_in_queues
from rsmq.web.fields import Field, Shape
from rsmq.web.routes.forms import bad_cursor, make_cursor, may, read_cursor, show_as
from rsmq.web.search import MAX_SECONDS, run_paced
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope
from rsmq.wire.limits import MAX_LABEL
from rsmq.wire.names import is_encodable

#: The most results of an answer, and of names of queues and workers that contain a text.
_MAX_FOUND, _MAX_NAMES = 200, 50


class PlaceJson(TypedDict):
    """A thing that was found."""

    kind: Annotated[
        str,
        "message, job, unique_key, group, limit_key, rate (of a limit key that has only a rate), "
        "task, queue, worker or flow.",
    ]
    queue: Annotated[str, "Its queue; empty without one."]
    name: Annotated[str, "Its id or its name; of a key or a group the id of one of its messages."]


class FoundJson(TypedDict):
    """The results of a search."""

    found: Annotated[list[PlaceJson], "What was found."]
    looked_at: Annotated[int, "The number of queues that were looked at."]
    cursor: Annotated[
        str | None,
        "For the other queues; null after the last. A search takes a tenth of Redis's time, and "
        "ends after two seconds.",
    ]


async def _find(call: ApiCall) -> ApiAnswer[FoundJson]:
    text = call.values["q"].strip()
    if not 1 <= len(text) <= MAX_LABEL or not is_encodable(text):
        raise InvalidFormat("q", value=text, hint=f"It is a text of 1 to {MAX_LABEL} characters.")
    names = [each for each in await call.walks.names() if may(call, Scope.STATS, each)]
    cursor = call.values.get("cursor")
    found: list[FoundPlace] = []
    if cursor is None:
        found = await _find_names(call, text, names)
    else:
        match read_cursor(cursor):
            case [str(last)]:
                names = [each for each in names if each > last]
            case _:
                raise bad_cursor(cursor)
    loop = asyncio.get_running_loop()
    end, looked = loop.time() + MAX_SECONDS, 0
    while looked < len(names) and len(found) < _MAX_FOUND and (not looked or loop.time() < end):
        step = names[looked : looked + QUEUES_PER_STEP]
        looked += len(step)
        queues = []
        for each in step:
            with suppress(RSMQError):
                queues.append(call.queues.namespace.queue(each))
        if queues:
            of_step: list[FoundPlace] = await run_paced(call.queues, find_in_queues(queues, text))
            found += of_step
    # Names of tasks are figures; the others may come from bodies.
    shown = [
        show_as(PlaceJson, each)
        for each in found
        if each.kind in _FIGURES or may(call, Scope.PEEK, each.queue)
    ]
    behind = make_cursor(names[looked - 1]) if looked < len(names) else None
    return ApiAnswer({"found": shown, "looked_at": looked, "cursor": behind})


async def _find_names(call: ApiCall, text: str, names: list[str]) -> list[FoundPlace]:
    """Return the queues, workers and flows with this name, or a name that contains it."""
    part = text.lower()
    queues = sorted((each for each in names if part in each.lower()), key=lambda each: each != text)
    found = [FoundPlace("queue", each, each) for each in queues[:_MAX_NAMES]]
    _, workers = parse_workers(*await call.queues.run(list_workers(call.queues.namespace)))
    listed = [each.name for each in workers if part in each.name.lower()]
    found += [FoundPlace("worker", "", each) for each in listed[:_MAX_NAMES]]
    with suppress(FlowNotFound, InvalidFormat):
        status = await AsyncFlowHandle(call.queues, text, only_reads=True).read("none")
        if all(may(call, Scope.PEEK, each) for each in status.queues):
            found.append(FoundPlace("flow", "", text))
    return found


_FIGURES = {"queue", "worker", "flow", "task"}

ROUTES = (
    Route(
        "GET", "/find", Scope.STATS, "Find what has a name or an id, in all queues.", _find,
        query=(
            Field("q", Shape.TEXT, "The whole id of a message, a job or a flow; a whole unique "
            "key, group or limit key; or a part of the name of a queue, a task or a worker.",
            required=True),
            Field("cursor", Shape.TEXT, "The cursor of the answer before."),
        ),
        result=FoundJson,
    ),
)  # fmt: skip
