"""
Actions on all messages that match a filter or are in a state: those of a preview.

The page of confirmation has the preview as a selection, which the action changes. Of more messages
than a selection has, it is an operation on those that were there at the time of the preview.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from rsmq.web.fields import Refused
from rsmq.web.pages.actions.dead_letters import UNDO_OF_OPERATION
from rsmq.web.pages.actions.form import Done, Effect, Fields, PageAction, one
from rsmq.web.pages.actions.messages import MAX_UNTYPED, NEW_QUEUE, STAYS, changed, with_target
from rsmq.web.pages.actions.queues import undo_of
from rsmq.web.pages.formats import plural, show_name
from rsmq.web.pages.links import Links
from rsmq.web.pages.table import PageCall

_PREVIEW = "/queues/{queue}/messages:preview"
#: The fields that the page sends of a preview.
_SELECTION, _BEFORE = "selection", "before_ms"
#: The state and the filter, under names that the entry does not have: an address must not narrow
#: what the preview has found.
_WHICH = ("in", "match")


def _queue(fields: Fields) -> str:
    return one(fields, "queue")


def _which(fields: Fields) -> str:
    """Return what messages have in common, for the end of a sentence."""
    state, text = one(fields, "in"), one(fields, "match")
    parts = [f"are {state.replace('_', ' ')}"] if state else []
    parts += [f"fit {show_name(text)}"] if text else []
    return f" that {' and '.join(parts)}" if parts else ""


def _named(fields: Fields) -> str:
    return f"messages of {show_name(_queue(fields))}{_which(fields)}"


def _to_list(links: Links, fields: Fields) -> str:
    state, text = one(fields, "in"), one(fields, "match")
    return links.queue(_queue(fields), "messages", state=state, filter=text)


async def _effect(
    call: PageCall,
    fields: Fields,
    verb: str,
    *warnings: str,
    skips_in_flight: bool = True,
) -> Effect:
    """
    Return the effect on the preview of a form, or on a new one.

    Args:
        skips_in_flight: whether messages in flight are left, unless that state was chosen.
    """
    state, text = one(fields, "in"), one(fields, "match")
    skips = skips_in_flight and not state
    token, before_ms, number = one(fields, _SELECTION), one(fields, _BEFORE), None
    entry: dict[str, str]
    if token:
        number = await call.count_selected(token)
    elif not before_ms:
        wanted: dict[str, Any] = {
            name: value for name, value in (("state", state), ("filter", text)) if value
        }
        wanted |= {"skip_in_flight": True} if skips else {}
        found = await call.run("POST", _PREVIEW, {"queue": _queue(fields)}, wanted)
        number, token = found["count"], found["selection"] or ""
        before_ms = str(found["before_ms"])
        if not number:
            raise Refused("messageNotFound", f"No message{_which(fields)} is there now", status=404)
    shown = "messages" if number is None else plural(number, "message")
    if token:
        sentence = f"{verb} {shown} of {show_name(_queue(fields))}{_which(fields)}: no others. "
        sentence += STAYS
        entry = {"skip_changed": "true"}
    else:
        least = "" if number is None else "at least "
        sentence = f"{verb} {least}{shown} of {show_name(_queue(fields))}{_which(fields)}, as "
        sentence += "an operation: those that came before the preview."
        # A filter without terms is that of all messages.
        entry = {"filter": text, **({"state": state} if state else {})}
        entry |= {"skip_in_flight": "true"} if skips else {}
    sentence += " Messages in flight are left out." if skips else ""
    is_many = number is None or not token or number > MAX_UNTYPED
    hidden = {_SELECTION: token} if token else {_BEFORE: before_ms}
    name = _queue(fields) if is_many else None
    return Effect(sentence, warnings, name, hidden=hidden, entry=entry)


async def _effect_of_deletion(call: PageCall, fields: Fields) -> Effect:
    hidden, warnings, text = await undo_of(call)
    effect = await _effect(call, fields, "Deletes", *warnings)
    if hidden and _SELECTION not in effect.hidden:
        text = f" {UNDO_OF_OPERATION}"
    return replace(effect, text=effect.text + text, hidden={**effect.hidden, **hidden})


async def _effect_of_release(call: PageCall, fields: Fields) -> Effect:
    warning = "Consumers that have received some of them are not stopped."
    return await _effect(call, fields, "Makes visible now", warning, skips_in_flight=False)


async def _effect_of_run(call: PageCall, fields: Fields) -> Effect:
    return await _effect(call, fields, "Releases, to run now,")


async def _effect_of_move(call: PageCall, fields: Fields) -> Effect:
    return await with_target(call, fields, await _effect(call, fields, "Moves"))


def _action(
    verb: str,
    done: Callable[[Fields, Any], Done],
    effect: Callable[[PageCall, Fields], Coroutine[Any, Any, Effect]],
    *form: str,
) -> PageAction:
    name = verb.lower()
    return PageAction(
        f"{name}-matching", f"POST /queues/{{queue}}/messages:{name}", verb, _named, done, effect,
        why_not="its commands change messages by their ids", back=_to_list, address=_WHICH,
        form=form, preview=(_SELECTION, _BEFORE),
    )  # fmt: skip


_RELEASE = _action("Release", changed("released"), _effect_of_release)

ACTIONS = (
    _action("Delete", changed("deleted"), _effect_of_deletion, "undo"),
    _RELEASE,
    replace(
        _RELEASE, name="run-matching", verb="Run", what=lambda f: f"{_named(f)} now",
        done=changed("released to run now"), effect=_effect_of_run, button="Run now",
    ),
    _action("Move", changed("moved"), _effect_of_move, "destination", NEW_QUEUE),
)  # fmt: skip
