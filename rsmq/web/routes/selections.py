"""
Selections: a preview of messages, and the actions on exactly these.
"""

from __future__ import annotations

import re
from typing import Any, get_args

from rsmq.errors import InvalidFormat
from rsmq.model import State
from rsmq.web.audit import MAX_IDS
from rsmq.web.fields import Field, Refused, Shape, one_of
from rsmq.web.routes.bulk import SKIP_IN_FLIGHT, refuse_with
from rsmq.web.routes.destinations import create_destination
from rsmq.web.routes.forms import QUEUE
from rsmq.web.routes.undo import show_deletion
from rsmq.web.selection.changes import SelectionAction, execute
from rsmq.web.selection.previews import check_ids, load_selection, preview, preview_ids
from rsmq.web.selection.selection import Selection, make_selection
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope

#: The field of actions on a selection.
SELECTION = Field(
    "selection", Shape.TEXT,
    "Instead: exactly the messages of a preview; 409 if one is gone or was received since. It "
    "needs manage.",
)  # fmt: skip
#: The fields of actions that leave what was received since.
SHOWN_AS = (
    Field(
        "shown", Shape.TEXTS,
        "With ids: how these messages were shown, as ID.COUNT with the receive count, which may be "
        "0. Those that were received since stay.",
    ),
    Field(
        "skip_changed", Shape.FLAG,
        "With selection: leave those that are gone or were received since, and change the others.",
    ),
)  # fmt: skip
#: The fields of their answers.
DONE = (
    Field("done", Shape.WHOLE, "Of a selection: the messages that were changed."),
    Field(
        "left", Shape.WHOLE, "Of a selection or shown: those that were received since; they stay."
    ),
)
_SHOWN = re.compile(r"(.+)\.([0-9]{1,19})", re.DOTALL)


def is_selected(call: ApiCall) -> bool:
    """Return whether a call is for the messages of a selection, or for some as they were shown."""
    return "selection" in call.values or "shown" in call.values


def _read_shown(call: ApiCall) -> Selection:
    """Return the messages of the field ``shown`` as a selection, which has any score."""
    refuse_with(call, "shown", "selection", "receipts", "filter", "state", "before_ms")
    found = [_SHOWN.fullmatch(each) for each in call.values["shown"]]
    rows = [(each[1], each[2], "") for each in found if each is not None]
    if [id for id, _, _ in rows] != check_ids(call.values.get("ids", ())):
        raise Refused(
            "invalidFormat", "The field shown has other messages than ids",
            hint="Pass each id in the same place, with a dot and its receive count behind it.",
        )  # fmt: skip
    return make_selection(call.names[QUEUE], rows, by_ids=True)


async def act_on_selection(call: ApiCall, action: SelectionAction) -> ApiAnswer:
    """Do something with the messages of the field ``selection`` or ``shown``."""
    queue, destination = call.names[QUEUE], call.values.get("destination")
    call.allow(Scope.MANAGE, queue)
    if destination is not None:
        call.allow(Scope.SEND, destination)
    if "shown" in call.values:
        selection = _read_shown(call)
    else:
        refuse_with(call, "selection", "receipts", "ids", "filter", "state", "before_ms")
        selection = await load_selection(call.queues, call.values["selection"])
    if selection.queue != queue:
        raise Refused("invalidFormat", "The selection is of another queue", value=selection.queue)
    await create_destination(call)
    result = await execute(
        call.queues,
        selection,
        action,
        destination=destination,
        redaction=call.redaction,
        undo=bool(call.values.get("undo")),
        by=call.caller,
        skip_changed="shown" in call.values or call.values.get("skip_changed", False),
    )
    if "shown" in call.values and not result.done:
        which = "The message" if selection.count == 1 else "Each of the messages"
        raise Refused(
            "receivedSince",
            f"{which} was received or has left the queue since it was shown; nothing was changed",
            status=409,
            hint="Look at it again, and decide on it as it is now.",
        )
    answer: dict[str, Any] = {"done": result.done, "left": result.left}
    if action is SelectionAction.DELETE:
        answer["undo"] = None if result.undo is None else show_deletion(result.undo)
    return ApiAnswer(answer, done=result.done, ids=selection.most_received(MAX_IDS))


async def _preview(call: ApiCall) -> ApiAnswer:
    queue, values = call.names[QUEUE], call.values
    if "filter" in values:
        call.allow(Scope.PEEK, queue)  # what fits tells what is in bodies
    state: Any = values.get("state")
    if state is not None and state not in get_args(State):
        hint = f"It is one of {', '.join(get_args(State))}."
        raise InvalidFormat("state", value=state, hint=hint)
    if "ids" in values:
        refuse_with(call, "ids", "filter", "state")
        found = await preview_ids(call.queues, queue, values["ids"], by=call.caller)
    else:
        found = await preview(
            call.queues, queue, filter=values.get("filter"), state=state, redaction=call.redaction,
            by=call.caller, skip_in_flight=values.get("skip_in_flight", False),
        )  # fmt: skip
    return ApiAnswer(_show(found))


def _show(selection: Selection) -> dict[str, Any]:
    return {
        "selection": selection.token if selection.is_complete else None,
        "count": selection.count,
        "digest": selection.digest,
        "is_complete": selection.is_complete,
        "before_ms": selection.before_ms,
        "until_ms": selection.until_ms,
    }


ROUTES = (
    Route(
        "POST", "/queues/{queue}/messages:preview", Scope.MANAGE,
        "Count the messages that an action would change, and keep them as a selection.", _preview,
        is_preview=True,
        body=(
            Field("filter", Shape.TEXT, "Only those that fit, such as json.country:DE rc>=3."),
            Field(
                "state", Shape.TEXT, "Only visible, in_flight, retrying, delayed, held_back.",
                rule=one_of(*get_args(State)),
            ),
            Field("ids", Shape.TEXTS, "Instead: these messages, as far as they are there."),
            SKIP_IN_FLIGHT,
        ),
        result=(
            Field("selection", Shape.TEXT, "For :delete, :move and :release; null if there are "
            "more than 10,000, or the search takes more than ten seconds: then pass filter and "
            "before_ms."),
            Field("count", Shape.WHOLE, "The number of messages; at least, if not complete."),
            Field("digest", Shape.TEXT, "Of the messages and how they are."),
            Field("is_complete", Shape.FLAG, "Whether all of them were found."),
            Field("before_ms", Shape.WHOLE, "Unix ms of the server at the end of the search."),
            Field("until_ms", Shape.WHOLE, "Unix ms until which it can be used."),
        ),
    ),
)  # fmt: skip
