"""
Operations on flows of tasks.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, Literal, TypedDict

from rsmq.errors import ClientClosed, FlowCancelled, FlowFailed, FlowNotEnded
from rsmq.jobs.flows.asyncio_ import AsyncFlowHandle
from rsmq.jobs.flows.status import FlowStatus, NodeStatus
from rsmq.search.redaction import Redaction
from rsmq.web.fields import Field, Shape
from rsmq.web.routes.forms import check_number, may, show_as
from rsmq.web.routes.receives import while_admitted
from rsmq.web.send_fields import list_arguments
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope


class NodeJson(TypedDict):
    """A node of a flow."""

    number: Annotated[int, "Its number, from 0."]
    task: Annotated[str, "The name of its task."]
    queue: Annotated[str, "Its queue."]
    after: Annotated[list[int], "The numbers of the nodes that it waits for."]
    is_finally: Annotated[bool, "Whether it runs after all others."]
    is_added: Annotated[bool, "Whether a node has added it while the flow ran."]
    state: Annotated[
        str,
        "pending, waiting, running, retrying, succeeded, failed, cancelled, expired or skipped.",
    ]
    id: Annotated[str | None, "The id of its message."]
    error: Annotated[str | None, "Type and text of its failure."]
    result: Annotated[Any, "Its result, if another node or the flow uses it."]


class FlowJson(TypedDict):
    """A flow of tasks."""

    id: Annotated[str, "Its id."]
    state: Annotated[str, "running, succeeded, failed or cancelled."]
    is_ended: Annotated[bool, "Whether it changes no more."]
    total: Annotated[int, "The number of its nodes."]
    done: Annotated[int, "How many have ended or were skipped."]
    counts: Annotated[
        dict[str, int], "How many nodes are in each state; sent: those that have not ended."
    ]
    sent_at: Annotated[str, "When it was sent.", Shape.TIME]
    ended_at: Annotated[str | None, "When it ended.", Shape.TIME]
    task: Annotated[str, "The name of the task of its first node."]
    queues: Annotated[list[str], "The queues of its nodes."]


class FlowWithNodesJson(FlowJson):
    """A flow of tasks, with its nodes."""

    nodes: Annotated[list[NodeJson], "Its nodes, in the order of their numbers."]


class FlowsJson(TypedDict):
    """The flows that were sent last."""

    flows: Annotated[list[FlowJson], "Those to all of whose queues the caller has the right."]


def _show_node(node: NodeStatus, redaction: Redaction) -> NodeJson:
    error, result = redaction.failure(node.error), redaction.result(node.raw_result)
    return show_as(NodeJson, node, error=error, result=result)


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


async def _list(call: ApiCall) -> ApiAnswer[FlowsJson]:
    state, limit = (each.read(call.values) for each in _LIST)
    found = await call.queues.flows(state=state, max_flows=limit)
    seen = (each for each in found if all(may(call, Scope.PEEK, queue) for queue in each.queues))
    return ApiAnswer({"flows": [show_as(FlowJson, each) for each in seen]})


async def _get(call: ApiCall) -> ApiAnswer[FlowWithNodesJson]:
    flow, status = await _find(call, Scope.PEEK)
    wait = check_number(_WAIT, call)
    if wait and not status.is_ended:
        # ClientClosed is raised if the server stops.
        with suppress(FlowNotEnded, FlowFailed, FlowCancelled, ClientClosed):
            await while_admitted(call, flow.result(wait), _forget)
    status = await _read(call, Scope.PEEK, flow, "all")  # nodes may have been added
    nodes = [_show_node(each, call.redaction) for each in status.nodes]
    return ApiAnswer({**show_as(FlowJson, status), "nodes": nodes})


async def _forget(_: object) -> None:
    """A flow is read again by the next call."""


async def _cancel(call: ApiCall) -> ApiAnswer:
    await _find(call, Scope.MANAGE)
    return ApiAnswer({"result": (await call.queues.flow(call.names["flow"]).cancel()).value})


_LIST = list_arguments("flows")
(_WAIT,) = list_arguments("flow")

ROUTES = (
    Route(
        "GET", "/flows", Scope.PEEK,
        "List the flows of tasks that were sent last, the last first.", _list, ("flows",),
        query=_LIST, result=FlowsJson,
    ),
    Route(
        "GET", "/flows/{flow}", Scope.PEEK,
        "Read what has become of a flow of tasks and its nodes, and wait for its end.", _get,
        ("flow",),
        query=(_WAIT,),
        result=FlowWithNodesJson,
    ),
    Route(
        "POST", "/flows/{flow}:cancel", Scope.MANAGE,
        "Cancel a flow: send nothing more of it, and cancel its jobs.", _cancel, ("flow",),
        result=(Field("result", Shape.TEXT, "cancelled, requested or ended."),),
    ),
)  # fmt: skip
