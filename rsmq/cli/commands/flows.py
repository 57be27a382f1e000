"""
The commands flow and flows.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rsmq.cli.app.call import Call
from rsmq.cli.app.command import command, options
from rsmq.cli.app.exit_codes import Exit
from rsmq.cli.app.output import (
    format_facts,
    format_items,
    format_text,
    format_time,
    to_json_value,
    truncate,
)
from rsmq.cli.app.send_options import call_options
from rsmq.errors import FlowCancelled, FlowFailed, FlowNotEnded, FlowNotFound

if TYPE_CHECKING:
    from rsmq.jobs.flows.status import FlowStatus, NodeStatus

_COLUMNS: dict[str, str | Callable[[Any], Any]] = {
    "node": "number",
    "state": "state",
    "after": lambda node: " ".join(map(str, node.after)) or None,
    "task": lambda node: (
        format_text(node.task)
        + (" (finally)" if node.is_finally else " (added)" if node.is_added else "")
    ),
    "queue": "queue",
    "id": "id",
    "error": "error",
}
_COLUMNS_OF_LIST: dict[str, str | Callable[[Any], Any]] = {
    "id": "id",
    "state": "state",
    "done": lambda flow: f"{flow.done} of {flow.total}",
    "failed": lambda flow: flow.counts["failed"] + flow.counts["expired"],
    "sent": lambda flow: format_time(flow.sent_at),
    "ended": lambda flow: flow.ended_at and format_time(flow.ended_at),
    "first task": lambda flow: format_text(flow.task),
}


@command("flow ID", "rsmq flow ID", "rsmq flow ID --wait 5m --json", "rsmq flow ID --cancel")
@call_options("flow")
@options("--cancel  Cancel it first: send nothing more of it, and cancel its jobs.")
def flow(call: Call, id: str, *, timeout: float, cancel: bool) -> Exit | None:
    """
    Show what has become of a flow of tasks, and cancel it.

    It shows each node too. All times are in UTC. The exit code is 1 if there is no such flow, or if
    it has not ended within --wait.
    """
    with call.open() as rsmq:
        handle = rsmq.flow(id)
        try:
            if cancel:
                handle.cancel()
            if timeout:
                with suppress(FlowNotEnded, FlowFailed, FlowCancelled):
                    handle.result(timeout)
            status, nodes = handle.status(), handle.nodes()
        except FlowNotFound as error:
            call.out.note(str(error))
            return Exit.NOT_ALL
    lines = format_items(nodes, _COLUMNS)
    width = call.out.width
    shown = [*_describe(status), "", *(truncate(each, width, keep=32) for each in lines)]
    call.out.result({**_to_json(status), "nodes": list(map(_show_node, nodes))}, shown)
    return Exit.NOT_ALL if timeout and not status.is_ended else None


@command("flows", "rsmq flows", "rsmq flows --state running -n 20 --json")
@call_options("flows")
def flows(call: Call, state: str | None, max_flows: int) -> None:
    """
    List the flows of tasks that were sent last.

    The last one is first. All times are in UTC. The last 10,000 flows of the namespace are known,
    until their time to live ends.
    """
    with call.open() as rsmq:
        found = rsmq.flows(state=state, max_flows=max_flows)
    call.out.table(found, _COLUMNS_OF_LIST, show=_to_json, keep=32)


def _to_json(status: FlowStatus) -> dict[str, Any]:
    document: dict[str, Any] = to_json_value(status)
    del document["is_list"], document["nodes"]
    return {**document, "done": status.done}


def _show_node(node: NodeStatus) -> dict[str, Any]:
    document: dict[str, Any] = to_json_value(node)
    raw = document.pop("raw_result")
    return {**document, "result": None if raw is None else json.loads(raw)}


def _describe(status: FlowStatus) -> list[str]:
    counts = ", ".join(f"{number} {name}" for name, number in status.counts.items() if number)
    facts = {
        "state": status.state,
        "nodes": f"{status.done} of {status.total} have ended: {counts}",
        "sent": format_time(status.sent_at),
        "ended": status.ended_at and format_time(status.ended_at),
    }
    return format_facts(facts)
