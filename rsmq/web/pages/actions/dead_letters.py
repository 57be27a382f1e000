"""
Actions on dead letters: redrive all or those of a cause, and delete those of a cause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from rsmq.search.failure_causes import UNKNOWN_CAUSE
from rsmq.web.fields import Refused
from rsmq.web.pages.actions.form import Done, Effect, Fields, Input, PageAction, one
from rsmq.web.pages.crash_evidence import UNKNOWN_ENDS, read_crash_loop
from rsmq.web.pages.formats import plural, show_name
from rsmq.web.pages.table import PageCall
from rsmq.web.routes.dead_letters import DeadLetterQueuesJson
from rsmq.web.routes.explanations import GroupJson, GroupsJson, QueueWhyJson
from rsmq.web.routes.forms import QueueJson
from rsmq.web.routes.undo import DeletionsJson
from rsmq.web.table import Scope

#: Above this number of messages the name of the queue is typed.
_MAX_UNTYPED = 100
_PREFIX = "cause:"
#: Queues of which it is read whether their messages still die.
_MAX_SOURCES = 3
_RECEIVED_AGAIN = "received-again"
#: The text about the undo of an operation.
UNDO_OF_OPERATION = (
    "It can be undone for ten minutes; if it takes longer than a minute, each minute of it by "
    "itself."
)
_RATE = Input(
    "rate", "Messages per second at most", value="100",
    hint="So consumers are not flooded. It runs as an operation, and can be paused.", required=True,
)  # fmt: skip
_DESTINATION = Input(
    "destination", "Queue that gets them", hint="Empty: each goes back to where it came from."
)


def _name(fields: Fields) -> str:
    return show_name(one(fields, "queue"))


async def _group_of(call: PageCall, fields: Fields) -> tuple[GroupJson, str]:
    """Return the group of a filter, and its number as text."""
    names = {"queue": one(fields, "queue")}
    page = await call.read(GroupsJson, names)
    key = one(fields, "filter").removeprefix(_PREFIX)
    for group in page["groups"]:
        if group["key"] == key:
            about = "at least " if page["cursor"] else ""
            return group, about + plural(group["count"], "dead letter")
    raise Refused(
        "groupNotFound", "There is no dead letter of this cause", status=404, value=key[:80]
    )


def _died_of(group: GroupJson) -> str:
    if group["exception"]:
        return f"that died of {show_name(group['exception'])}"
    if group["key"] == UNKNOWN_CAUSE:
        return "without a stored reason"
    return "that died of a cause that is not known"


def _typed(fields: Fields, number: int) -> str | None:
    return one(fields, "queue") if number > _MAX_UNTYPED else None


async def _warnings(call: PageCall, fields: Fields, groups: list[GroupJson]) -> tuple[str, ...]:
    """Return the warnings that messages of groups may crash their workers, or die again."""
    if all(each["key"] != UNKNOWN_CAUSE for each in groups):
        return await _still_die(call, fields)
    loop = await read_crash_loop(call, one(fields, "queue"))
    suspect = () if loop is None else (f"{show_name(loop['text'])} {show_name(loop['evidence'])}",)
    return (*suspect, UNKNOWN_ENDS, *await _still_die(call, fields))


async def _still_die(call: PageCall, fields: Fields) -> tuple[str, ...]:
    """Return the warnings that messages still die, by the queues of the policies: one for each."""
    listed = (await call.read_lasting(DeadLetterQueuesJson))["queues"]
    sources = [each["sources"] for each in listed if each["queue"] == one(fields, "queue")]
    names = [name for each in sources for name in each if call.may(Scope.STATS, name)]
    reads = (call.read(QueueWhyJson, {"queue": name}) for name in names[:_MAX_SOURCES])
    return tuple(
        f"They may die again. {each['text']}"
        for why in await asyncio.gather(*reads)
        for each in why["causes"]
        if each["cause"] == _RECEIVED_AGAIN
    )


async def _effect_of_redrive(call: PageCall, fields: Fields) -> Effect:
    names = {"queue": one(fields, "queue")}
    now_ms = (await call.read(QueueWhyJson, names))["now_ms"]
    queue = await call.read(QueueJson, names)
    number = queue["visible_messages"]
    groups = (await call.read(GroupsJson, names))["groups"]
    return Effect(
        f"Sends {plural(number, 'dead letter')} of {_name(fields)} again, with new ids and a "
        "receive count of 0. Those that come later stay.",
        await _warnings(call, fields, groups),
        name_to_type=_typed(fields, number),
        hidden={"before_ms": str(now_ms)},
    )


async def _effect_on_group(call: PageCall, fields: Fields) -> Effect:
    group, number = await _group_of(call, fields)
    again = group["redriven"]
    warning = f"{plural(again, 'message')} of them died again after a redrive before."
    return Effect(
        f"Sends {number} of {_name(fields)} again {_died_of(group)}, with new ids "
        "and a receive count of 0. Those that come later stay.",
        (*((warning,) if again else ()), *await _warnings(call, fields, [group])),
        name_to_type=_typed(fields, group["count"]),
        hidden={"before_ms": str(group["last_died_ms"])},
    )


async def _effect_of_deletion(call: PageCall, fields: Fields) -> Effect:
    group, number = await _group_of(call, fields)
    off = (await call.read(DeletionsJson))["off"]
    return Effect(
        f"Removes {number} of {_name(fields)} {_died_of(group)}. Those that come later stay.",
        (f"It can't be undone, because {off}.",) if off else (UNDO_OF_OPERATION,),
        name_to_type=one(fields, "queue"),
        hidden={
            "before_ms": str(group["last_died_ms"]),
            "undo": "false" if off else "true",
        },
    )


def _begun(fields: Fields, answer: Mapping[str, Any]) -> Done:
    undo = answer["arguments"].get("undo")
    # The page still says it when the operation has ended.
    return Done(f"The {answer['kind']} of {_name(fields)} was started: it is listed below.", undo)


def _command(fields: Fields) -> list[str]:
    target = one(fields, "destination")
    return ["redrive", *([f"--to={target}"] if target else []), "--", one(fields, "queue")]


_PAGE = "dead-letters/{queue}"

ACTIONS = (
    PageAction(
        "redrive", "POST /queues/{queue}:redrive", "Redrive", "all dead letters of {queue}",
        _begun, _effect_of_redrive, _command, inputs=(_RATE, _DESTINATION), form=("before_ms",),
        recorded="dead letters of {queue}", back="activity", cancel=_PAGE,
    ),
    PageAction(
        "redrive-group", "POST /queues/{queue}:redrive", "Redrive", "dead letters of {queue}",
        _begun, _effect_on_group, why_not="rsmq redrive takes ids, or all dead letters",
        inputs=(_RATE, _DESTINATION), address=("filter",), form=("before_ms",), back="activity",
        cancel=_PAGE,
    ),
    PageAction(
        "delete-group", "POST /queues/{queue}/messages:delete", "Delete", "dead letters of {queue}",
        _begun, _effect_of_deletion, why_not="rsmq delete takes ids", address=("filter",),
        form=("before_ms", "undo"), back="activity", cancel=_PAGE,
    ),
)  # fmt: skip
