"""
Actions on what was done: undo, and the operations of many messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsmq.trash.deletion import DeletionKind
from rsmq.web.fields import Refused
from rsmq.web.pages.actions.form import Done, Effect, Fields, PageAction, one
from rsmq.web.pages.formats import plural, show_name
from rsmq.web.pages.links import Links
from rsmq.web.pages.table import PageCall
from rsmq.web.routes.undo import DeletionsJson

_OPERATION = "/operations/{operation}"
#: The effect of an undo, by the kind of the deletion.
_RESTORES = {
    DeletionKind.PURGE: "Restores {messages} of {queue}, which a purge has removed.",
    DeletionKind.DELETE_QUEUE: "Restores the queue {queue} with {messages}.",
    DeletionKind.DELETE_MESSAGES: "Restores {messages} of {queue}, which a deletion has removed.",
}


def _to_restored(links: Links, fields: Fields) -> str:
    queue = one(fields, "queue")
    return links.queue(queue) if queue else links.url("activity")


def _restored(_: Fields, answer: Mapping[str, Any]) -> Done:
    queue, messages = show_name(answer["queue"]), plural(answer["messages"], "message")
    text = f"The deletion was undone: {messages} of {queue} restored"
    if answer["kind"] == DeletionKind.DELETE_QUEUE:
        text = f"The deletion was undone: queue {queue} restored, with {messages}"
    others = answer["in_queue"]
    more = f"; {plural(others, 'message')} had returned by another way" if others else ""
    return Done(f"{text}{more}.")


async def _effect_of_undo(call: PageCall, fields: Fields) -> Effect:
    deletions = (await call.read(DeletionsJson))["deletions"]
    found = next((each for each in deletions if each["id"] == one(fields, "id")), None)
    if found is None:
        raise Refused(
            "deletionNotFound", "There is no such deletion", status=404,
            hint="It can be undone for ten minutes.",
        )  # fmt: skip
    queue = one(fields, "queue")
    if queue and queue != found["queue"]:
        raise Refused(
            "deletionNotFound", "The deletion is of another queue", status=404,
            value=show_name(queue), hint="Undo it on the page of activity.",
        )  # fmt: skip
    return Effect(
        _RESTORES[DeletionKind(found["kind"])].format(
            messages=plural(found["messages"], "message"), queue=show_name(found["queue"])
        )
    )


async def _effect_of_cancelling(call: PageCall, fields: Fields) -> Effect:
    found = await call.read(_OPERATION, {"operation": one(fields, "operation")})
    return Effect(
        f"Ends the {found['kind']} of {show_name(found['queue'])}. "
        f"{plural(found['done'], 'message')} that it has changed stay as they are, of "
        f"{plural(found['total'], 'message')} in all."
    )


ACTIONS = (
    PageAction(
        "undo", "POST /undo/{id}", "Undo", "the deletion", _restored, _effect_of_undo,
        back=_to_restored, address=("queue",), recorded="the deletion {id} of {queue}",
    ),
    *(
        PageAction(
            f"{verb.lower()}-operation", f"POST {_OPERATION}:{verb.lower()}", verb,
            "the operation", says, effect, why_not="operations are those of a server",
            back="activity", address=("queue",), recorded="operation {operation}",
        )
        for verb, says, effect in (
            ("Pause", "The {kind} of {queue} is paused.", ""),
            ("Resume", "The {kind} of {queue} is resumed.", ""),
            ("Cancel", "The {kind} of {queue} was cancelled.", _effect_of_cancelling),
        )
    ),
)  # fmt: skip
