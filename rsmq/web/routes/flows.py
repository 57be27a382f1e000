"""
Operations on flows of tasks.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal

from rsmq.errors import ClientClosed, FlowCancelled, FlowFailed, FlowNotEnded
from rsmq.jobs.flows.asyncio_ import AsyncFlowHandle
from rsmq.jobs.flows.operations import MAX_LISTED
from rsmq.jobs.flows.status import FlowState, FlowStatus, NodeStatus
from rsmq.search.redaction import Redaction
from rsmq.web.fields import Field, Shape, between, one_of
from rsmq.web.routes.forms import may, show_named
from rsmq.web.routes.receives import check_wait, while_admitted
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope


def _show_node(node: NodeStatus, redaction: Redaction) -> dict[str, Any]:
    return {
        **show_named(_NODE[:-2], node),
        "error": redaction.failure(node.error),
        "result": redaction.result(node.raw_result),
    }


async def _find(call: ApiCall, scope: Scope) -> tuple[AsyncFlowHandle, FlowStatus]:
    """Return a flow, all of whose queues the caller may act on."""
    # A read of an operator does not end nodes whose messages are gone.
    flow = AsyncFlowHandle(call.queues, call.names["flow"], only_reads=True)
    return flow, await _read(call, scope, flow, "none")


async def _read(
    call: ApiCall, scope: Scope, flow: AsyncFlowHandle, nodes: Literal["none", "all"]
) -> FlowStatus:
    status = await flow.read(nodes)
    for queue in status.queues:
        call.allow(scope, queue)
    return status


async def _list(call: ApiCall) -> ApiAnswer:
    state, limit = call.values.get("state"), call.values.get("limit", 100)
    found = await call.queues.flows(state=state, max_flows=limit)
    return ApiAnswer(
        {
            "flows": [
                _show(each)
                for each in found
                if all(may(call, Scope.PEEK, queue) for queue in each.queues)
            ]
        }
    )


async def _get(call: ApiCall) -> ApiAnswer:
    flow, status = await _find(call, Scope.PEEK)
    wait = check_wait(call)
    if wait and not status.is_ended:
        # ClientClosed is raised if the server stops.
        with suppress(FlowNotEnded, FlowFailed, FlowCancelled, ClientClosed):
            await while_admitted(call, flow.result(wait), _forget)
    status = await _read(call, Scope.PEEK, flow, "all")  # nodes may have been added
    nodes = [_show_node(each, call.redaction) for each in status.nodes]
    return ApiAnswer({**_show(status), "nodes": nodes})


def _show(status: FlowStatus) -> dict[str, Any]:
    return show_named(_FLOW, status)


async def _forget(_: object) -> None:
    """A flow is read again by the next call."""


async def _cancel(call: ApiCall) -> ApiAnswer:
    await _find(call, Scope.MANAGE)
    return ApiAnswer({"result": (await call.queues.flow(call.names["flow"]).cancel()).value})


_NODE = (
    Field("number", Shape.WHOLE, "Its number, from 0."),
    Field("task", Shape.TEXT, "The name of its task."),
    Field("queue", Shape.TEXT, "Its queue."),
    Field("after", Shape.NUMBERS, "The numbers of the nodes that it waits for."),
    Field("is_finally", Shape.FLAG, "Whether it runs after all others."),
    Field("is_added", Shape.FLAG, "Whether a node has added it while the flow ran."),
    Field("state", Shape.TEXT, "pending, waiting, running, retrying, succeeded, failed, cancelled, "
    "expired or skipped."),
    Field("id", Shape.TEXT, "The id of its message."),
    Field("error", Shape.TEXT, "Type and text of its failure."),
    Field("result", Shape.ANY, "Its result, if another node or the flow uses it."),
)  # fmt: skip

_FLOW = (
    Field("id", Shape.TEXT, "Its id."),
    Field("state", Shape.TEXT, "running, succeeded, failed or cancelled."),
    Field("is_ended", Shape.FLAG, "Whether it changes no more."),
    Field("total", Shape.WHOLE, "The number of its nodes."),
    Field("done", Shape.WHOLE, "How many have ended or were skipped."),
    Field("counts", Shape.OBJECT, "How many nodes are in each state; sent: those that have not "
    "ended."),
    Field("sent_at", Shape.TIME, "When it was sent."),
    Field("ended_at", Shape.TIME, "When it ended."),
    Field("task", Shape.TEXT, "The name of the task of its first node."),
    Field("queues", Shape.TEXTS, "The queues of its nodes."),
)  # fmt: skip

ROUTES = (
    Route(
        "GET", "/flows", Scope.PEEK,
        "List the flows of tasks that were sent last, the last first.", _list, ("flows",),
        query=(
            Field(
                "state", Shape.TEXT, "Only those in this state.",
                rule=one_of(*(each.value for each in FlowState)),
            ),
            Field(
                "limit", Shape.WHOLE, "Flows, 1 to 1,000; 100 by default.",
                rule=between(1, MAX_LISTED),
            ),
        ),
        result=(Field("flows", Shape.OBJECTS, "Those to all of whose queues the caller has the "
        "right.", items=_FLOW),),
    ),
    Route(
        "GET", "/flows/{flow}", Scope.PEEK,
        "Read what has become of a flow of tasks and its nodes, and wait for its end.", _get,
        ("flow",),
        query=(
            Field(
                "wait", Shape.NUMBER, "Seconds to wait for its end, 0 to 60.", rule=between(0, 60)
            ),
        ),
        result=(
            *_FLOW,
            Field("nodes", Shape.OBJECTS, "Its nodes, in the order of their numbers.",
                items=_NODE),
        ),
    ),
    Route(
        "POST", "/flows/{flow}:cancel", Scope.MANAGE,
        "Cancel a flow: send nothing more of it, and cancel its jobs.", _cancel, ("flow",),
        result=(Field("result", Shape.TEXT, "cancelled, requested or ended."),),
    ),
)  # fmt: skip
