"""
Actions on whole queues.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rsmq.vocabulary.queues import CREATE, LIMIT, SET
from rsmq.web.pages.actions.attributes import attribute_inputs, effect_of_change
from rsmq.web.pages.actions.form import Done, Effect, Fields, Input, PageAction, one, options_of
from rsmq.web.pages.formats import plural, show_name, were_released
from rsmq.web.pages.table import PageCall
from rsmq.web.routes.forms import QueueJson
from rsmq.web.routes.queues import CountsJson
from rsmq.web.routes.undo import DeletionsJson
from rsmq.web.routes.workers import WorkersJson

#: The name is typed for more messages than these.
_MANY = 100
#: The longest queue of which messages in flight are counted.
_MAX_COUNTED = 10_000
#: Messages that a sweep moves.
_SWEPT = 1000


def _queue(fields: Fields) -> str:
    return one(fields, "queue")


def _name(fields: Fields) -> str:
    return show_name(_queue(fields))


async def _read(call: PageCall, fields: Fields) -> QueueJson:
    return await call.read(QueueJson, {"queue": _queue(fields)})


async def undo_of(call: PageCall) -> tuple[dict[str, str], tuple[str, ...], str]:
    """Return the field that makes a deletion undoable, a warning if it can't be, and a sentence."""
    off = (await call.read(DeletionsJson))["off"]
    if off is None:
        return {"undo": "true"}, (), " It can be undone for ten minutes."
    return {}, (f"It can't be undone: {off}",), ""


def _undo_option(fields: Fields) -> list[str]:
    return ["--undo"] if one(fields, "undo") else []


async def _effect_of_purge(call: PageCall, fields: Fields) -> Effect:
    queue, (hidden, warnings, text) = await _read(call, fields), await undo_of(call)
    return Effect(
        f"Removes {plural(queue['messages'], 'message')} from {_name(fields)}, of which "
        f"{plural(queue['hidden_messages'], 'message')} are hidden: received, delayed, or waiting "
        f"for a retry.{text}",
        warnings,
        name_to_type=_queue(fields),
        hidden=hidden,
    )


async def _effect_of_deletion(call: PageCall, fields: Fields) -> Effect:
    queue, (hidden, warnings, text) = await _read(call, fields), await undo_of(call)
    return Effect(
        f"Removes the queue {_name(fields)} with {plural(queue['messages'], 'message')}, its "
        f"attributes and its counters. Its producers and consumers get queueNotFound.{text}",
        warnings,
        name_to_type=_queue(fields),
        hidden=hidden,
    )


async def _effect_of_release(call: PageCall, fields: Fields) -> Effect:
    queue = await _read(call, fields)
    if queue["messages"] <= _MAX_COUNTED:
        counts = await call.read(CountsJson, {"queue": _queue(fields)})
        number = counts["in_flight"] + counts["retrying"]
        text = f"Makes {plural(number, 'message')} of {_name(fields)} visible at once"
    else:
        number = queue["hidden_messages"]
        text = (
            f"Makes visible at once what {_name(fields)} has in flight: at most "
            f"{plural(number, 'message')}, which are hidden"
        )
    return Effect(
        f"{text}: those that were received, and those that wait for a retry.",
        ("A consumer that still works on one of them continues: it may be processed twice.",),
        name_to_type=_queue(fields) if number > _MANY else None,
    )  # fmt: skip


async def _effect_of_resume(call: PageCall, fields: Fields) -> Effect:
    queue = await _read(call, fields)
    if not queue["paused"]:
        return Effect(f"{_name(fields)} is not paused.")
    visible, hidden = queue["visible_messages"], queue["hidden_messages"]
    paused = [
        f"Worker {show_name(each['name'])} of it is paused too. Resume it on its page."
        for each in (await call.read(WorkersJson))["workers"]
        if each["is_alive"] and each["paused"] and _queue(fields) in each["in_flight"]
    ]
    return Effect(
        f"Workers receive from {_name(fields)} again: {plural(visible, 'message')} at once, and "
        f"{plural(hidden, 'hidden message')} when visible.",
        tuple(paused),
    )


async def _effect_of_sweep(call: PageCall, fields: Fields) -> Effect:
    queue = await _read(call, fields)
    target = queue["dead_letter_queue"]
    if target is None:
        return Effect(f"{_name(fields)} has no dead-letter policy, so nothing is moved.")
    return Effect(
        f"Moves visible messages of {_name(fields)} that were received "
        f"{plural(queue['max_receives'] or 0, 'time')} or more to {show_name(target)}: at most "
        f"{_SWEPT} of {plural(queue['visible_messages'], 'visible message')}.",
        name_to_type=_queue(fields),
    )


async def _effect_of_expiry_sweep(call: PageCall, fields: Fields) -> Effect:
    queue = await _read(call, fields)
    is_kept = queue["expired"] == "dead-letter" and queue["dead_letter_queue"] is not None
    end = f"moved to {show_name(queue['dead_letter_queue'] or '')}" if is_kept else "removed"
    return Effect(
        f"Expired messages of {_name(fields)} are {end}: at most {_SWEPT} of "
        f"{plural(queue['visible_messages'], 'visible message')}.",
        () if is_kept else ("It can't be undone.",),
        name_to_type=_queue(fields),
    )


async def _effect_of_policy(call: PageCall, fields: Fields) -> Effect:
    queue = await _read(call, fields)
    now = queue["dead_letter_queue"]
    text = "It has no policy now."
    if now is not None:
        text = f"Now it is {show_name(now)}, after {plural(queue['max_receives'] or 0, 'receive')}."
    return Effect(
        "A receive, pop or recover of this library moves a message that was received too often, "
        f"instead of delivering it. {text}",
        ("Node and PHP deliver such messages: sweep moves them.",),
    )


async def _effect_of_no_policy(call: PageCall, fields: Fields) -> Effect:
    queue = await _read(call, fields)
    target = queue["dead_letter_queue"]
    return Effect(
        f"Messages of {_name(fields)} are delivered however often they were received. Dead letters "
        f"stay in {show_name(target)}."
        if target is not None
        else f"{_name(fields)} has no dead-letter policy."
    )


async def _effect_of_limits(call: PageCall, fields: Fields) -> Effect:
    queue = await _read(call, fields)
    return Effect(
        "All receives of this library together obey the limits. A limit that is left empty is "
        "removed.",
        ("Node and PHP ignore them, and what they receive does not count.",),
        inputs=tuple(
            replace(each, value=str(queue.get(each.name) or ""))
            for each in attribute_inputs(LIMIT, with_values=False)
        ),
    )


def _swept(what: str) -> Callable[[Fields, Any], Done]:
    return lambda f, a: Done(f"{plural(len(a['ids']), what)} of {_name(f)} swept.")


_OF_QUEUE = "/queues/{queue}"

ACTIONS = (
    PageAction(
        "create-queue", f"PUT {_OF_QUEUE}", "Create", "a queue", "The queue {queue} was created.",
        "An ordinary queue, for consumers in any language.",
        lambda f: ["create", _queue(f) or "NAME", *options_of(f, *CREATE.options)],
        cancel="queues",
        inputs=(
            Input("queue", "Name", hint="1 to 160 characters of A-Z a-z 0-9 _ -"),
            *attribute_inputs(CREATE),
        ),
        recorded="the queue {queue}",
    ),
    PageAction(
        "change-queue", f"PATCH {_OF_QUEUE}", "Change", "attributes of {queue}",
        "The attributes of {queue} were changed.", effect_of_change,
        lambda f: ["attributes", _queue(f), *options_of(f, *SET.options)], address=(*SET.options,),
    ),
    PageAction(
        "set-policy", f"PUT {_OF_QUEUE}/dead-letter-policy", "Set",
        "the dead-letter policy of {queue}", "", _effect_of_policy,
        lambda f: ["dead-letter", _queue(f), one(f, "dead_letter_queue") or "DEAD_LETTER_QUEUE",
                   *options_of(f, "max_receives")],
        inputs=(
            Input("dead_letter_queue", "Dead-letter queue", hint="It must exist."),
            Input("max_receives", "Receives", value="3"),
        ),
        button="Set the policy",
    ),
    PageAction(
        "remove-policy", f"DELETE {_OF_QUEUE}/dead-letter-policy", "Remove",
        "the dead-letter policy of {queue}", "", _effect_of_no_policy,
        "dead-letter {queue} --remove", button="Remove the policy",
    ),
    PageAction(
        "set-limits", f"PUT {_OF_QUEUE}/limits", "Set", "the limits of {queue}",
        "The limits of {queue} were set.", _effect_of_limits,
        lambda f: ["limit", _queue(f), *options_of(f, *LIMIT.options)],
        address=(*LIMIT.options,), button="Set the limits",
    ),
    PageAction(
        "remove-limits", f"DELETE {_OF_QUEUE}/limits", "Remove", "the limits of {queue}",
        "The limits of {queue} were removed.", command="limit {queue} --remove",
        button="Remove the limits",
    ),
    PageAction(
        "pause", f"POST {_OF_QUEUE}:pause", "Pause", "{queue}",
        "{queue} is paused: workers receive nothing from it.",
    ),
    PageAction(
        "resume", f"POST {_OF_QUEUE}:resume", "Resume", "{queue}",
        "{queue} is resumed: workers receive from it.", _effect_of_resume,
    ),
    PageAction(
        "release-all", f"POST {_OF_QUEUE}:release-all", "Release",
        "all messages in flight of {queue}",
        lambda f, answer: Done(were_released(answer["released"], _name(f))), _effect_of_release,
        "release {queue} --all",
    ),
    PageAction(
        "sweep", f"POST {_OF_QUEUE}:sweep", "Sweep", "dead letters of {queue}",
        _swept("message"), _effect_of_sweep, f"sweep {{queue}} --number {_SWEPT}",
        fixed={"max": _SWEPT}, button="Sweep dead letters",
    ),
    PageAction(
        "sweep-expired", f"POST {_OF_QUEUE}:sweep-expired", "Sweep", "expired messages of {queue}",
        _swept("expired message"), _effect_of_expiry_sweep,
        f"sweep-expired {{queue}} --number {_SWEPT}", fixed={"max": _SWEPT},
        button="Sweep expired messages",
    ),
    PageAction(
        "purge", f"POST {_OF_QUEUE}:purge", "Purge", "{queue}", "", _effect_of_purge,
        lambda f: ["purge", _queue(f), *_undo_option(f)], form=("undo",),
    ),
    PageAction(
        "delete-queue", f"DELETE {_OF_QUEUE}", "Delete", "the queue {queue}", "",
        _effect_of_deletion, lambda f: ["delete-queue", _queue(f), *_undo_option(f)],
        back="queues", form=("undo",),
    ),
)  # fmt: skip
