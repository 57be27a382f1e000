"""
``current_flow``, with which a running node adds nodes to its flow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

from rsmq.errors import InvalidFormat, InvalidValue, NotPossible
from rsmq.jobs.flows.operations import FlowNode, pack_nodes
from rsmq.tasks.body import headers_of_task
from rsmq.tasks.graph import MAX_FLOW_BYTES, MAX_NODES, Node, NodeGraph, encode_node
from rsmq.tasks.signature import Signature, TaskSender
from rsmq.wire.ids import check_flow_id
from rsmq.worker.operations import FollowingMessage

_current: ContextVar[CurrentFlow | None] = ContextVar("rsmq_flow", default=None)
_NOTHING: AbstractContextManager[None] = nullcontext()


def current_flow() -> CurrentFlow:
    """
    Return the flow whose node this thread or asyncio task runs.

    Raises:
        NotPossible: it runs none.
    """
    flow = _current.get()
    if flow is None:
        raise NotPossible(
            "There is no current flow",
            hint="Call current_flow() in the function of a task that a flow has sent.",
        )
    return flow


class CurrentFlow(NodeGraph):
    """
    The flow of the node that runs; ``current_flow`` returns it.

    Attributes:
        id: the id of the flow.
        nodes: the calls that this node has added, in their order.
    """

    def __init__(self, sender: TaskSender, id: str, number: int) -> None:
        """Make it for the node of this number, without added calls."""
        super().__init__(sender, id)
        self.number = number
        self.awaited: set[Node] = set()
        self._encoded: list[FlowNode] = []
        self._bytes = 0

    def add(
        self,
        signature: Signature[Any],
        after: Node | Iterable[Node] | None = None,
        *,
        awaited: bool = False,
    ) -> Node:
        """
        Add a call to the flow. It is sent when this node, and those in ``after``, have succeeded.

        Nothing is stored before the function has returned. Then one script ends this node, stores
        what it has added, and sends what waits for nothing more; so an attempt that fails adds
        nothing, and a repeated one adds its nodes once. If the flow was cancelled or stopped
        meanwhile, nothing is added. The result of the flow is that of the nodes which it was sent
        with.

        Args:
            signature: a call as for ``Flow.add``.
            after: nodes that this function has added; None is none. ``RESULT`` and ``RESULT(node)``
                are results of such nodes, as for ``Flow.add``.
            awaited: whether the nodes after this one wait for the added one, too. They do not get
                its result.

        Returns:
            The node.

        Raises:
            InvalidFormat: as for ``Flow.add``; or the function has returned.
            InvalidValue: it is the 1,001st call, or the calls have more than 16 MiB together. If
                the flow has 10,000 nodes, this node fails when the function has returned.
            MessageNotString: an argument is not a value of JSON.
        """
        node = self._make_node(signature, after)
        if node.number >= MAX_NODES:
            raise InvalidValue("number of nodes", 1, MAX_NODES, value=node.number + 1)
        encoded = encode_node(self.id, node, is_added=True)
        if self._bytes + len(encoded.body) > MAX_FLOW_BYTES:
            size = self._bytes + len(encoded.body)
            raise InvalidValue("bytes of all bodies", 1, MAX_FLOW_BYTES, value=size)
        self._bytes += len(encoded.body)
        self._encoded.append(encoded)
        self.nodes.append(node)
        if awaited:
            self.awaited.add(node)
        return node

    def close(self) -> None:
        """Take no further call: the function has returned."""
        self._closed = "its node has returned"

    def as_following(self) -> FollowingMessage:
        """Return what adds the nodes, in the script that ends this one."""
        queues = tuple(dict.fromkeys(each.queue for each in self._encoded))
        packed = pack_nodes(self._encoded, {each.number for each in self.awaited})
        return FollowingMessage(
            queues[0],
            packed,
            0,
            number=str(self.number),
            flow_id=self.id,
            other_queues=queues[1:],
        )

    def __repr__(self) -> str:
        return f"CurrentFlow({self.id!r}, {len(self.nodes)} nodes added)"


def context_of_task(
    body: Mapping[str, Any], sender: TaskSender
) -> AbstractContextManager[CurrentFlow | None]:
    """
    Return a context manager for the call of a task, which returns its flow; None if it has none.

    In it, the headers of the body are the current ones, and the flow is the current one.
    """
    if "flow" in body or "headers" in body or _current.get() is not None:
        return _use(body, sender)
    return _NOTHING


@contextmanager
def _use(body: Mapping[str, Any], sender: TaskSender) -> Iterator[CurrentFlow | None]:
    flow = _read_flow(body.get("flow"), sender)
    token = _current.set(flow)
    try:
        with headers_of_task(body):
            yield flow
    finally:
        if flow is not None:
            flow.close()
        _current.reset(token)


def _read_flow(place: Any, sender: TaskSender) -> CurrentFlow | None:
    """Return the flow that a body names; None if it names none, or in another form."""
    try:
        return CurrentFlow(sender, check_flow_id(place["id"]), int(place["node"]))
    except (InvalidFormat, KeyError, TypeError, ValueError, OverflowError):
        return None
