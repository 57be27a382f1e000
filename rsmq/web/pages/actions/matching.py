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
_SELECTION, _BEFORE = "selection", "before_ms"
_PREVIEWED = frozenset({"count", _SELECTION, _BEFORE, "filter", "state"})
#: Which messages it is comes from the preview only.
_NO_OTHERS: dict[str, str | None] = dict.fromkeys(("filter", "state", "ids", "receipts"))


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


async def _effect(
    call: PageCall, fields: Fields, verb: str, *warnings: str, inputs: tuple[Input, ...] = ()
) -> Effect:
    """Return the effect on the preview of a form, or on a new one."""
    state, text = one(fields, "in"), one(fields, "match")
    token, before_ms, number = one(fields, _SELECTION), one(fields, _BEFORE), None
    if token:
        number = await call.count_selected(token)
    elif not before_ms:
        wanted = {name: value for name, value in (("state", state), ("filter", text)) if value}
        found = await call.run("POST", _PREVIEW, {"queue": _queue(fields)}, wanted)
        number, token = found["count"], found["selection"] or ""
        before_ms = str(found["before_ms"])
        if not number:
            raise Refused("messageNotFound", f"No message{_which(fields)} is there now", status=404)
    shown = "messages" if number is None else plural(number, "message")
    if token:
        sentence = f"{verb} {shown} of {show_name(_queue(fields))}{_which(fields)}: exactly "
        sentence += "these. If one is received before, nothing is changed; one that is received "
        sentence += "while it runs stays."
        entry = {**_NO_OTHERS, _BEFORE: None}
    else:
        least = "" if number is None else "at least "
        sentence = f"{verb} {least}{shown} of {show_name(_queue(fields))}{_which(fields)}, as "
        sentence += "an operation: those that came before the preview."
        # A filter without terms is that of all messages.
        entry = {**_NO_OTHERS, "filter": text, "state": state or None}
    is_many = number is None or not token or number > MAX_UNTYPED
    hidden = {_SELECTION: token} if token else {_BEFORE: before_ms}
    name = _queue(fields) if is_many else None
    return Effect(sentence, warnings, name, inputs, hidden=hidden, entry=entry)


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
        _to_list, _effect_of_deletion, previewed=_PREVIEWED,
    ),
    PageAction(
        "release-matching", "POST", "/queues/{queue}/messages:release",
        lambda f: f"Release messages of {show_name(_queue(f))}", "Release", _changed("released"),
        _to_list, _effect_of_release, previewed=_PREVIEWED,
    ),
    PageAction(
        "move-matching", "POST", "/queues/{queue}/messages:move",
        lambda f: f"Move messages of {show_name(_queue(f))}", "Move", _changed("moved"), _to_list,
        _effect_of_move, previewed=_PREVIEWED,
    ),
)  # fmt: skip
