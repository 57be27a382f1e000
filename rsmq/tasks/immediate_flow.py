"""
Flows within ``Tasks.immediate``: the functions of their nodes are called here, without Redis.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol

from rsmq.jobs.flows.operations import COUNTS
from rsmq.jobs.flows.status import FlowState, FlowStatus, NodeState, NodeStatus
from rsmq.jobs.status import JobStatus
from rsmq.tasks.body import ResultOfNodes
from rsmq.tasks.graph import Node
from rsmq.tasks.signature import Signature


class CallsNodes(Protocol):
    """Calls the functions of nodes; ``Tasks`` does."""

    def call_node(
        self, signature: Signature[Any], flow_id: str, number: int
    ) -> tuple[JobStatus[Any], list[Node]]:
        """Call a function here. Return its job, and the nodes that it has added to its flow."""


class ImmediateFlow:
    """A flow whose functions are called here, each after those before it."""

    def __init__(self, caller: CallsNodes, id: str, *, is_stopped_by_failure: bool) -> None:
        self._caller = caller
        self._id = id
        self._is_stopped_by_failure = is_stopped_by_failure
        self._ended: dict[int, NodeStatus] = {}
        self._total = 0

    def run(self, nodes: list[Node], finally_: Node | None, *, is_list: bool) -> FlowStatus:
        """
        Call all functions, and return what has become of them.

        Args:
            nodes: the nodes, each after those before it.
            finally_: the node that runs after all others, whatever their outcomes.
            is_list: whether the result of the flow is a list.

        Raises:
            The exception of a function, after the call of ``finally_``.
        """
        sent_at, declared = datetime.now(UTC), len(nodes) + (finally_ is not None)
        self._total = declared
        try:
            for node in nodes:
                self._run_node(node, is_skipped=self._is_stopped())
        finally:
            if finally_ is not None:
                self._run_node(finally_, is_skipped=False)
        followed = {number for each in self._ended.values() for number in each.after}
        statuses = [
            replace(
                each,
                is_added=each.number >= declared,
                is_finally=finally_ is not None and each.number == finally_.number,
            )
            for _, each in sorted(self._ended.items())
        ]
        counts = dict.fromkeys(COUNTS, 0)
        for each in statuses:
            counts[each.state] += 1
        is_failed = any(
            each.state is not NodeState.SUCCEEDED
            for each in statuses
            if each.number not in followed and not each.is_finally
        )
        state = FlowState.FAILED if is_failed else FlowState.SUCCEEDED
        return FlowStatus(
            self._id,
            state,
            len(statuses),
            counts,
            sent_at,
            datetime.now(UTC),
            statuses,
            is_list,
            nodes[0].signature.task,
            tuple(dict.fromkeys(each.queue for each in statuses)),
        )

    def _is_stopped(self) -> bool:
        has_failed = any(each.state is not NodeState.SUCCEEDED for each in self._ended.values())
        return has_failed and self._is_stopped_by_failure

    def _run_node(self, node: Node, *, is_skipped: bool) -> None:
        """Call a node, and then those that it adds."""
        if is_skipped:
            self._ended[node.number] = _make_status(node, NodeState.SKIPPED)
            return
        args = {name: self._result_of(value) for name, value in node.signature.args.items()}
        job, added = self._caller.call_node(
            replace(node.signature, args=args), self._id, node.number
        )
        status = _make_status(node, NodeState(job.state) if job.is_ended else NodeState.FAILED)
        self._ended[node.number] = replace(
            status, id=job.id, raw_result=job.raw_result, error=job.error
        )
        added = _renumber(added, self._total, node)
        self._total += len(added)
        for each in added:
            self._run_node(each, is_skipped=self._is_stopped())

    def _result_of(self, value: Any) -> Any:
        if not isinstance(value, ResultOfNodes):
            return value
        raws = (self._ended[each.number].raw_result for each in value.nodes)
        results = [json.loads(raw or b"null") for raw in raws]
        return results if value.is_list else results[0]


def _make_status(node: Node, state: NodeState) -> NodeStatus:
    call, after = node.signature, tuple(each.number for each in node.after)
    return NodeStatus(node.number, call.task, call.queue, after, state)


def _renumber(nodes: Iterable[Node], first: int, adding: Node) -> list[Node]:
    """Return nodes that a node has added, with their numbers in the flow, after that node."""
    found: dict[Node, Node] = {}
    for node in nodes:
        args = {
            name: replace(value, nodes=tuple(found[each] for each in value.nodes))
            if isinstance(value, ResultOfNodes)
            else value
            for name, value in node.signature.args.items()
        }
        after = tuple(found[each] for each in node.after) or (adding,)
        found[node] = Node(first + node.number, replace(node.signature, args=args), after)
    return list(found.values())
