"""
Deletions that can be undone.
"""

from __future__ import annotations

from typing import Annotated, TypedDict

from rsmq.trash.deletion import Deletion, DeletionKind
from rsmq.web.fields import Field, Refused, Shape
from rsmq.web.routes.forms import may, show_as
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope

#: The field of calls that delete.
UNDO = Field(
    "undo", Shape.FLAG,
    "Keep what is deleted for ten minutes, for POST /undo/{id}; 409 if that is not possible.",
)  # fmt: skip
#: The field of their answers.
UNDO_RESULT = Field("undo", Shape.OBJECT, "How to undo it, as in GET /undo; null if it is final.")


def scope_of(deletion: Deletion) -> Scope:
    """Return the scope that the deletion needed, which its undo needs too."""
    is_some = deletion.kind == DeletionKind.DELETE_MESSAGES
    return Scope.MANAGE if is_some else Scope.DESTROY


class DeletionJson(TypedDict):
    """A deletion that can be undone."""

    id: Annotated[str, "Its id, for POST /undo/{id}."]
    kind: Annotated[str, "purge, delete-queue or delete-messages."]
    queue: Annotated[str, "Its queue."]
    by: Annotated[str | None, "The caller; null for those who may not undo it."]
    messages: Annotated[int, "How many it has deleted."]
    deleted_ms: Annotated[int, "Unix ms."]
    until_ms: Annotated[int, "Unix ms until which it can be undone."]
    state: Annotated[str, "kept, undoing or undone."]


class ListedDeletionJson(DeletionJson):
    """A deletion of the list."""

    may_undo: Annotated[bool, "Whether the caller may undo it."]


class DeletionsJson(TypedDict):
    """The deletions that can be undone."""

    deletions: Annotated[list[ListedDeletionJson], "The latest first."]
    off: Annotated[str | None, "Why deletions would be final now; null if not so."]


def show_deletion(deletion: Deletion) -> DeletionJson | None:
    """Return a deletion; None if nothing was deleted."""
    return show_as(DeletionJson, deletion) if deletion.id else None


async def _list(call: ApiCall) -> ApiAnswer[DeletionsJson]:
    trash = call.queues.trash
    shown = []
    for each in await trash.list():
        if may(call, Scope.STATS, each.queue):
            may_undo = may(call, scope_of(each), each.queue)
            by, is_open = each.by if may_undo else None, may_undo and each.state != "undone"
            shown.append(show_as(ListedDeletionJson, each, by=by, may_undo=is_open))
    return ApiAnswer({"deletions": shown, "off": await trash.why_off()})


async def _find(call: ApiCall) -> Deletion | None:
    return next((e for e in await call.queues.trash.list() if e.id == call.names["id"]), None)


async def _queue_of(call: ApiCall) -> str:
    found = await _find(call)
    return "" if found is None else found.queue


async def _undo(call: ApiCall) -> ApiAnswer:
    trash, id = call.queues.trash, call.names["id"]
    found = await _find(call)
    if found is None or not may(call, Scope.STATS, found.queue):
        raise Refused(
            "deletionNotFound",
            "There is no such deletion",
            status=404,
            hint="It can be undone for ten minutes.",
        )
    call.allow(scope_of(found), found.queue)
    restored = await trash.undo(id)
    return ApiAnswer(
        {
            "kind": found.kind,
            "queue": restored.queue,
            "messages": restored.messages,
            "in_queue": restored.in_queue,
        }
    )


ROUTES = (
    Route(
        "GET", "/undo", Scope.STATS, "List what was deleted and can be undone.", _list,
        ("trash.list", "trash.why_off"),
        result=DeletionsJson,
    ),
    Route(
        "POST", "/undo/{id}", Scope.MANAGE,
        "Restore what was deleted; it needs the scope that the deletion needed.", _undo,
        ("trash.undo",), queue_of=_queue_of,
        result=(
            Field("kind", Shape.TEXT, "The kind of the deletion, as in GET /undo."),
            Field("queue", Shape.TEXT, "The name of the queue."),
            Field("messages", Shape.WHOLE, "The messages that were restored."),
            Field("in_queue", Shape.WHOLE, "Those that had returned by another way."),
        ),
    ),
)  # fmt: skip
