"""
The nodes of flows: calls, each after others.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from rsmq.errors import InvalidFormat, Shown, show, show_type
from rsmq.jobs.flows.operations import FlowNode, added_number, result_of
from rsmq.operations.arguments import encode_body
from rsmq.tasks.body import RESULT, TASK_CODEC, ResultOfNodes
from rsmq.tasks.signature import Signature, TaskSender, check_call
from rsmq.wire.limits import to_milliseconds, utf16_length

#: The most nodes of a send, and of a call that adds some, and the most bytes of their bodies.
MAX_NODES = 1000
MAX_FLOW_BYTES = 16 * 1024 * 1024
_OPTIONS_OF_NODES = {"delay"}


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """
    A call in a flow; ``Flow.add`` returns it, and ``RESULT(node)`` stands for its result.

    Attributes:
        number: its number in the flow, from 0.
        signature: the call.
        after: the nodes that it waits for.
    """

    number: int
    signature: Signature[Any]
    after: tuple[Node, ...]

    def __repr__(self) -> str:
        return f"Node({self.number}, {self.signature.task!r})"


class NodeGraph:
    """
    Calls, each after others.

    Attributes:
        id: the id of the flow.
        nodes: its calls, in the order in which they were added.
    """

    def __init__(self, sender: TaskSender, id: str) -> None:
        """Make it without calls."""
        self.id = id
        self.nodes: list[Node] = []
        self._sender = sender
        #: Why it takes no further call; empty while it does.
        self._closed = ""

    def _make_node(self, signature: Signature[Any], after: Node | Iterable[Node] | None) -> Node:
        """Return a call as a node, checked as ``Flow.add`` says; the number of nodes is not."""
        self._check(signature)
        own = _nodes_of(after)
        args = {
            name: ResultOfNodes(own, not isinstance(after, Node)) if value is RESULT else value
            for name, value in signature.args.items()
        }
        before = dict.fromkeys(own)
        for value in args.values():
            if isinstance(value, ResultOfNodes):
                before.update(dict.fromkeys(value.nodes))
        for each in before:
            _check_node(each)
            if each.number >= len(self.nodes) or self.nodes[each.number] is not each:
                raise InvalidFormat("after", value=show(each), hint="It is of another flow.")
        if after is None and any(value is RESULT for value in signature.args.values()):
            hint = "It has the argument RESULT, and no node before it: pass after=."
            raise InvalidFormat("after", value=Shown(signature.task), hint=hint)
        return Node(len(self.nodes), replace(signature, args=args), tuple(before))

    def _check(self, signature: object) -> Signature[Any]:
        if self._closed:
            hint = "Make another flow for further calls."
            raise InvalidFormat("flow", value=Shown(self._closed), hint=hint)
        call = check_call("signature", signature, self._sender)
        refused = call.options.send.keys() - _OPTIONS_OF_NODES
        if refused or call.options.then is not None:
            hint = "The options of a node are level and delay. Add what follows it as a node."
            option = Shown(f"option {min(refused, default='then')}")
            raise InvalidFormat("signature", value=option, hint=hint)
        if not call.declared.is_tracked:
            hint = "Declare it with track=True: the flow needs its outcome."
            raise InvalidFormat("signature", value=Shown(f"task {call.task}"), hint=hint)
        return call


def _nodes_of(after: object) -> tuple[Any, ...]:
    """Return the nodes of an argument ``after``; they are not checked."""
    if isinstance(after, Iterable) and not isinstance(after, str | bytes):
        return tuple(after)
    if after is not None:
        _check_node(after)
    return () if after is None else (after,)


def _check_node(value: object) -> None:
    if not isinstance(value, Node):
        hint = "Pass nodes, which add() has returned."
        raise InvalidFormat("after", value=show_type(value), hint=hint)


def encode_node(flow_id: str, node: Node, *, is_added: bool = False) -> FlowNode:
    """
    Return a node as it is stored.

    Args:
        flow_id: the id of the flow.
        node: the node.
        is_added: whether its number is not known before it is stored.

    Raises:
        MessageNotString: an argument is not a value of JSON.
    """
    signature, mark = node.signature, secrets.token_hex(16)
    results = {
        name: value for name, value in signature.args.items() if isinstance(value, ResultOfNodes)
    }
    args = {**signature.args, **{name: mark + name for name in results}}
    number: Any = mark if is_added else node.number
    body = {**signature.body_of(args), "flow": {"id": flow_id, "node": number}}
    raw, _ = encode_body(body, TASK_CODEC)
    if is_added:
        raw = raw.replace(b'"%s"' % mark.encode(), added_number(node.number))
    for name, value in results.items():
        texts = b",".join(result_of(each.number) for each in value.nodes)
        marked, _ = encode_body(mark + name, TASK_CODEC)
        raw = raw.replace(marked, b"[%s]" % texts if value.is_list else texts)
    delay = signature.options.send.get("delay")
    return FlowNode(
        signature.queue,
        raw,
        utf16_length(raw.decode()),
        [each.number for each in node.after],
        [each.number for value in results.values() for each in value.nodes],
        None if delay is None else to_milliseconds("delay", delay),
    )
