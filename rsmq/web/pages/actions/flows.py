"""
The action on a flow of tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsmq.web.fields import Refused
from rsmq.web.pages.actions.form import Done, Effect, Fields, PageAction, one
from rsmq.web.pages.formats import plural
from rsmq.web.pages.table import PageCall
from rsmq.web.routes.flows import FlowWithNodesJson


async def _effect(call: PageCall, fields: Fields) -> Effect:
    flow = await call.read(FlowWithNodesJson, {"flow": one(fields, "flow")})
    if flow["is_ended"]:
        raise Refused("flowEnded", "The flow has ended", status=409, value=flow["id"])
    left = flow["total"] - flow["done"]
    return Effect(
        f"Sends nothing more of the flow, and cancels the jobs of its "
        f"{plural(left, 'node')} that {'has' if left == 1 else 'have'} not ended. Calls that run "
        "are interrupted, or end as usual if they are in threads and do not look. It can't be "
        "undone."
    )


def _done(fields: Fields, answer: Mapping[str, Any]) -> Done:  # noqa: ARG001 - as others
    if answer["result"] == "ended":
        return Done("The flow had ended already.")
    return Done("The flow is cancelled; calls that run may take a few seconds to end.")


ACTIONS = (
    PageAction(
        "cancel-flow", "POST /flows/{flow}:cancel", "Cancel", "flow {flow}", _done,
        _effect, "flow {flow} --cancel", back="flows/{flow}",
    ),
)  # fmt: skip
