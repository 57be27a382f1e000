"""
Actions on all messages that match a filter or are in a state: exactly those of a preview.

The page of confirmation has the preview as a selection, which the action changes. Of more messages
than a selection has, it is an operation on those that were there at the time of the preview.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rsmq.web.fields import Refused
from rsmq.web.pages.actions.form import Done, Effect, Fields, Input, PageAction, one
from rsmq.web.pages.actions.messages import MAX_UNTYPED, input_of_queue
from rsmq.web.pages.actions.queues import undo_of
from rsmq.web.pages.formats import plural, show_name
from rsmq.web.pages.links import Links
from rsmq.web.pages.table import PageCall

_PREVIEW = "/queues/{queue}/messages:preview"
#: What the page sends of a preview.
_COUNT, _SELECTION, _BEFORE = "count", "selection", "before_ms"


def _queue(fields: Fields) -> str:
    return one(fields, "queue")


def _which(fields: Fields) -> str:
    """Return what messages have in common, for the end of a sentence."""
    state, text = one(fields, "in"), one(fields, "match")
    parts = [f"are {state.replace('_', ' ')}"] if state else []
    parts += [f"fit {show_name(text)}"] if text else []
    return f" that {' and '.join(parts)}" if parts else ""


def _to_list(links: Links, fields: Fields) -> str:
    state, text = one(fields, "in"), one(fields, "match")
    return links.queue(_queue(fields), "messages", state=state, filter=text)


async def _preview(call: PageCall, fields: Fields) -> dict[str, str]:
    """Return the fields of a preview: that of the form, or a new one."""
    sent = {name: one(fields, name) for name in (_COUNT, _SELECTION, _BEFORE) if name in fields}
    if sent.get(_COUNT, "").isdecimal() and (_SELECTION in sent or _BEFORE in sent):
        return sent
    state, text = one(fields, "in"), one(fields, "match")
    wanted = {name: value for name, value in (("state", state), ("filter", text)) if value}
    found = await call.run("POST", _PREVIEW, {"queue": _queue(fields)}, wanted)
    if not found["count"]:
        raise Refused("messageNotFound", f"No message{_which(fields)} is there now", status=404)
    if found["selection"] is not None:
        return {_COUNT: str(found["count"]), _SELECTION: found["selection"]}
    # A filter without terms is that of all messages.
    return {
        _COUNT: str(found["count"]), _BEFORE: str(found["before_ms"]), "filter": text,
        **({"state": state} if state else {}),
    }  # fmt: skip


async def _effect(
    call: PageCall, fields: Fields, verb: str, *warnings: str, inputs: tuple[Input, ...] = ()
) -> Effect:
    found = await _preview(call, fields)
    is_exact = _SELECTION in found
    number = plural(int(found[_COUNT]), "message")
    text = f"{verb} {'' if is_exact else 'at least '}{number} of {show_name(_queue(fields))}"
    if is_exact:
        text += f"{_which(fields)}: exactly these. If one is received before, nothing is changed."
    else:
        text += f"{_which(fields)}, as an operation: those that came before this moment."
    is_many = not is_exact or int(found[_COUNT]) > MAX_UNTYPED
    return Effect(text, warnings, _queue(fields) if is_many else None, inputs, hidden=found)


async def _effect_of_deletion(call: PageCall, fields: Fields) -> Effect:
    hidden, warnings, text = await undo_of(call)
    effect = await _effect(call, fields, "Deletes", *warnings)
    return replace(effect, text=effect.text + text, hidden={**effect.hidden, **hidden})


async def _effect_of_release(call: PageCall, fields: Fields) -> Effect:
    warning = "Consumers that have received some of them are not stopped."
    return await _effect(call, fields, "Makes visible now", warning)


async def _effect_of_move(call: PageCall, fields: Fields) -> Effect:
    target = await input_of_queue(call, "destination", "To the queue", but=_queue(fields))
    return await _effect(call, fields, "Moves", inputs=(target,))


def _changed(verb: str) -> Any:
    """Return what is said of messages that were changed, or of an operation that has begun."""

    def done(fields: Fields, content: Any) -> Done:
        if content.get("operation"):
            return Done(f"The operation {content['operation']} has begun.")
        left = f" {plural(content['left'], 'message')} stayed." if content["left"] else ""
        text = f"{plural(content['done'], 'message')} of {show_name(_queue(fields))} {verb}."
        return Done(text + left, (content.get("undo") or {}).get("id"))

    return done


ACTIONS = (
    PageAction(
        "delete-matching", "POST", "/queues/{queue}/messages:delete",
        lambda f: f"Delete messages of {show_name(_queue(f))}", "Delete", _changed("deleted"),
        _to_list, _effect_of_deletion,
    ),
    PageAction(
        "release-matching", "POST", "/queues/{queue}/messages:release",
        lambda f: f"Release messages of {show_name(_queue(f))}", "Release", _changed("released"),
        _to_list, _effect_of_release,
    ),
    PageAction(
        "move-matching", "POST", "/queues/{queue}/messages:move",
        lambda f: f"Move messages of {show_name(_queue(f))}", "Move", _changed("moved"), _to_list,
        _effect_of_move,
    ),
)  # fmt: skip
