"""
Operations on schedules.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from rsmq.errors import InvalidFormat, MissingExtra
from rsmq.schedules.definition import StoredSchedule
from rsmq.vocabulary.sends import SCHEDULE
from rsmq.web.access.principals import ALL_QUEUES
from rsmq.web.bodies import show_body
from rsmq.web.fields import BODY_FIELDS, Field, Refused, Shape, read_body
from rsmq.web.routes.forms import may, show_value
from rsmq.web.send_fields import list_arguments, list_fields
from rsmq.web.table import ApiAnswer, ApiCall, Handler, Route, Scope

#: Ticks that are shown of a schedule.
_UPCOMING = 5
_DEFINITION = (
    "queue", "cron", "every", "timezone", "missed", "jitter", "tick_field", "version", "source",
    "realtime",
)  # fmt: skip


def _show(call: ApiCall, schedule: StoredSchedule) -> dict[str, Any]:
    """Return a schedule, with its body if the caller may see bodies of its queue."""
    definition = schedule.definition
    shown: dict[str, Any] = {
        each: getattr(definition, each, None) if definition else None for each in _DEFINITION
    }
    shown |= {
        each: definition.options.get(each) if definition else None for each in SCHEDULE.options
    }
    if definition and may(call, Scope.PEEK, definition.queue):
        shown |= show_body(call.redaction.body(definition.body))
    state = {
        each.name: show_value(getattr(schedule, each.name))
        for each in fields(schedule)
        if each.name != "definition"
    }
    return {**state, **shown}


def _allow(call: ApiCall, schedule: StoredSchedule | None, scope: Scope) -> StoredSchedule:
    """Return a schedule whose queue the caller may act on."""
    if schedule is None:
        raise Refused("scheduleNotFound", "There is no such schedule", status=404)
    # Without a definition its queue is not known: only those who may act on all queues may.
    call.allow(scope, schedule.definition.queue if schedule.definition else ALL_QUEUES)
    return schedule


async def _find(call: ApiCall, scope: Scope) -> StoredSchedule:
    return _allow(call, await call.queues.schedules.get(call.names["schedule"]), scope)


async def _list(call: ApiCall) -> ApiAnswer:
    shown = []
    for each in await call.queues.schedules.list():
        try:
            shown.append(_show(call, _allow(call, each, Scope.STATS)))
        except Refused:
            continue
    return ApiAnswer({"schedules": shown})


async def _get(call: ApiCall) -> ApiAnswer:
    found = await _find(call, Scope.STATS)
    try:
        upcoming = list(map(show_value, found.upcoming(_UPCOMING)))
    except (MissingExtra, InvalidFormat):  # this process can't read the expression or the zone
        upcoming = []
    return ApiAnswer({**_show(call, found), "upcoming": upcoming})


async def _add(call: ApiCall) -> ApiAnswer:
    name, values = call.names["schedule"], dict(call.values)
    call.allow(Scope.MANAGE, values["queue"])
    before = await call.queues.schedules.get(name)
    if before is not None:
        _allow(call, before, Scope.MANAGE)
    bodies = {each.name for each in BODY_FIELDS}
    body = read_body(values) if bodies & set(values) else ""
    options = {each: value for each, value in values.items() if each not in bodies}
    changed = await call.queues.schedules.add(name, **options, body=body, codec=call.codec)
    return ApiAnswer({"changed": changed}, 201 if before is None else 200)


async def _remove(call: ApiCall) -> ApiAnswer:
    await _find(call, Scope.MANAGE)
    await call.queues.schedules.remove(call.names["schedule"])
    return ApiAnswer(status=204)


def _with_changed(method: str) -> Handler:
    async def change(call: ApiCall) -> ApiAnswer:
        await _find(call, Scope.MANAGE)
        changing = getattr(call.queues.schedules, method)
        return ApiAnswer({"changed": await changing(call.names["schedule"])})

    return change


async def _run(call: ApiCall) -> ApiAnswer:
    await _find(call, Scope.MANAGE)
    return ApiAnswer({"id": await call.queues.schedules.run_now(call.names["schedule"])}, 201)


_CHANGED = (Field("changed", Shape.FLAG, "Whether that changed anything."),)
_FIELDS = (
    Field("queue", Shape.TEXT, "The queue that the messages are sent to.", required=True),
    *BODY_FIELDS,
    *list_arguments("schedules.add"),
    *list_fields(SCHEDULE),
)

ROUTES = (
    Route(
        "GET", "/schedules", Scope.STATS, "List the schedules.", _list, ("schedules.list",),
        result=(Field("schedules", Shape.OBJECTS, "The schedules, by name."),),
    ),
    Route(
        "PUT", "/schedules/{schedule}", Scope.MANAGE, "Add a schedule, or replace it.", _add,
        ("schedules.add",), body=_FIELDS, answers={201: "added", 200: "it was there"},
        result=_CHANGED,
    ),
    Route(
        "GET", "/schedules/{schedule}", Scope.STATS, "Read a schedule.", _get,
        ("schedules.get",),
        result=(
            Field("name", Shape.TEXT, "Its name, and its state."),
            Field("upcoming", Shape.TEXTS, f"Its next {_UPCOMING} ticks, without the jitter."),
        ),
    ),
    Route(
        "DELETE", "/schedules/{schedule}", Scope.MANAGE, "Remove a schedule.", _remove,
        ("schedules.remove",), answers={204: "removed"},
    ),
    Route(
        "POST", "/schedules/{schedule}:pause", Scope.MANAGE, "Pause a schedule.",
        _with_changed("pause"), ("schedules.pause",), result=_CHANGED,
    ),
    Route(
        "POST", "/schedules/{schedule}:resume", Scope.MANAGE, "Resume a schedule.",
        _with_changed("resume"), ("schedules.resume",), result=_CHANGED,
    ),
    Route(
        "POST", "/schedules/{schedule}:run", Scope.MANAGE, "Send its message once, now.", _run,
        ("schedules.run_now",), answers={201: "sent"},
        result=(Field("id", Shape.TEXT, "The id of the message."),),
    ),
)  # fmt: skip
