"""
``Flow``, a graph of calls: each is sent when those before it have succeeded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, Protocol, TypedDict, Unpack, cast

from rsmq._sync.client import RSMQ
from rsmq.aio import AsyncRSMQ
from rsmq.errors import InvalidFormat, InvalidValue, Shown, show, show_type
from rsmq.errors.misuse import warn_in_event_loop
from rsmq.jobs.flows.asyncio_ import AsyncFlowHandle
from rsmq.jobs.flows.operations import FlowPlan, send_flow
from rsmq.jobs.flows.status import FlowStatus
from rsmq.jobs.flows.threads import FlowHandle
from rsmq.operations.operation import Operation
from rsmq.tasks.body import RESULT, is_result
from rsmq.tasks.graph import MAX_FLOW_BYTES, MAX_NODES, Node, NodeGraph, encode_node
from rsmq.tasks.immediate_flow import CallsNodes, ImmediateFlow
from rsmq.tasks.sends import asyncio_, threads
from rsmq.tasks.signature import Signature, TaskSender, with_result
from rsmq.wire.ids import make_flow_id
from rsmq.wire.limits import MAX_SECONDS, check_duration, check_label

DEFAULT_FLOW_TTL_SECONDS = 86_400.0


class FlowSender(TaskSender, CallsNodes, Protocol):
    """Sends flows; ``Tasks`` does."""

    @property
    def client(self) -> RSMQ[Any]:
        """The synchronous client."""

    @property
    def aio(self) -> AsyncRSMQ[Any]:
        """The asyncio client."""

    def decode_result_of(self, task: str, value: Any) -> Any:
        """Return the result of a task, by its name and the value of JSON."""


class FlowOptions(TypedDict, total=False):
    """The options of ``Tasks.flow``, which describes them."""

    on_failure: Literal["stop", "continue"]
    finally_: Signature[Any] | None
    dedup_id: str | None
    result_ttl: float


class Flow(NodeGraph):
    """
    A graph of calls, which ``Tasks.flow`` makes; nothing is sent before ``send``.

    Attributes:
        id: the id under which it is stored.
        nodes: its calls, in the order in which they were added.
    """

    _sender: FlowSender

    def __init__(
        self, sender: FlowSender, *, is_list: bool = False, **options: Unpack[FlowOptions]
    ) -> None:
        """Make it; see ``Tasks.flow``."""
        unknown = options.keys() - FlowOptions.__annotations__.keys()
        if unknown:
            raise TypeError(f"flow() got an unexpected keyword argument {min(unknown)!r}")
        self._policy = options.get("on_failure", "stop")
        if self._policy not in {"stop", "continue"}:
            hint = "It is 'stop' or 'continue'."
            raise InvalidFormat("on_failure", value=show(self._policy), hint=hint)
        dedup_id = options.get("dedup_id")
        if dedup_id is not None:
            check_label("dedup_id", dedup_id)
        ttl = options.get("result_ttl", DEFAULT_FLOW_TTL_SECONDS)
        self._ttl = check_duration("result_ttl", ttl, 1, MAX_SECONDS)
        super().__init__(sender, make_flow_id(dedup_id))
        self._is_list = is_list
        self._finally: Signature[Any] | None = None
        last = options.get("finally_")
        if last is not None:
            self.finally_(last)

    def add(self, signature: Signature[Any], after: Node | Iterable[Node] | None = None) -> Node:
        """
        Add a call; it is sent when the nodes before it have succeeded.

        Args:
            signature: the call of a task with ``track=True``, with the options ``level`` and
                ``delay`` only. Its argument ``RESULT`` is the result of the node in ``after``, or
                the list of their results in this order, if ``after`` is a list. ``RESULT(node)``
                and ``RESULT([node, ...])`` are those of other nodes, which it waits for too.
            after: a node of this flow, or several; None is none.

        Returns:
            The node.

        Raises:
            InvalidFormat: it is not such a call of the same Tasks object, or a node is of another
                flow, or this flow was sent.
            InvalidValue: the flow has 1,000 nodes.
        """
        node = self._make_node(signature, after)
        number = len(self.nodes) + 1 + (self._finally is not None)
        if number > MAX_NODES:
            raise InvalidValue("number of nodes", 1, MAX_NODES, value=number)
        self.nodes.append(node)
        return node

    def finally_(self, signature: Signature[Any]) -> None:
        """
        Set the call that is sent after all nodes, whatever their outcomes; in place of another one.

        Args:
            signature: a call as for ``add``, without ``RESULT``. Its error is that of the flow.

        Raises:
            The errors of ``add``.
        """
        call = self._check(signature)
        if any(is_result(value) for value in call.args.values()):
            hint = "It gets no RESULT: pass the id of the flow, and read its nodes() there."
            raise InvalidFormat("finally_", value=Shown(call.task), hint=hint)
        self._finally = signature

    def send(self) -> FlowHandle:
        """
        Store the flow, and send the calls that wait for no other one. One script.

        Missing queues are created. A flow is sent once: if it was sent before, also by another
        object with the same ``dedup_id``, nothing changes, and the handle is on that flow. So this
        may be repeated after a connection error.

        Returns:
            The handle, with ``id``, ``status``, ``nodes``, ``result`` and ``cancel``.

        Raises:
            InvalidFormat: it has no node.
            InvalidValue: its bodies have more than 16 MiB together.
            MessageTooLong: a body is larger than the maxsize of its queue, without results.
            MessageNotString: an argument is not a value of JSON.
            Errors of redis-py: the server can't be reached.
        """
        client, decode = self._sender.client, self._sender.decode_result_of
        if self._sender.is_immediate:
            return FlowHandle(client, self.id, decode=decode, ended=self._run())
        warn_in_event_loop("send of a flow", "Use await flow.asend()")
        threads.run(client, self._make_operation(realtime=client.realtime))
        return FlowHandle(client, self.id, decode=decode)

    async def asend(self) -> AsyncFlowHandle:
        """
        Send it from asyncio, as ``send`` does; ``await flow`` of the handle waits for the result.

        Raises:
            The errors of ``send``.
        """
        decode = self._sender.decode_result_of
        if self._sender.is_immediate:
            return AsyncFlowHandle(self._sender.client, self.id, decode=decode, ended=self._run())
        client = self._sender.aio
        await asyncio_.run(client, self._make_operation(realtime=client.realtime))
        return AsyncFlowHandle(client, self.id, decode=decode)

    def _all_nodes(self) -> list[Node]:
        """Return the nodes, and the one of ``finally_`` after them."""
        if not self.nodes:
            hint = "Add a call, as in flow.add(resize.signature(1))."
            raise InvalidFormat("flow", value=Shown("without nodes"), hint=hint)
        last = [] if self._finally is None else [Node(len(self.nodes), self._finally, ())]
        return [*self.nodes, *last]

    def _make_operation(self, *, realtime: bool) -> Operation[bool]:
        nodes = [encode_node(self.id, each) for each in self._all_nodes()]
        size = sum(len(each.body) for each in nodes)
        if size > MAX_FLOW_BYTES:
            raise InvalidValue("bytes of all bodies", 1, MAX_FLOW_BYTES, value=size)
        plan = FlowPlan(
            self.id,
            nodes,
            self._policy,
            has_finally=self._finally is not None,
            is_list=self._is_list,
            ttl_ms=round(self._ttl * 1000),
        )
        self._closed = "it was sent"
        return send_flow(self._sender.client.namespace, plan, realtime=realtime)

    def _run(self) -> FlowStatus:
        """Call the functions here, for ``Tasks.immediate``."""
        nodes, self._closed = self._all_nodes(), "it was sent"
        last = nodes[-1] if self._finally is not None else None
        run = ImmediateFlow(self._sender, self.id, is_stopped_by_failure=self._policy == "stop")
        return run.run(self.nodes, last, is_list=self._is_list)

    def __repr__(self) -> str:
        return f"Flow({self.id!r}, {len(self.nodes)} nodes)"


def chain(
    *steps: Signature[Any] | Iterable[Signature[Any]], **options: Unpack[FlowOptions]
) -> Flow:
    """
    Return a flow of calls, one after the other; ``RESULT`` is the result of the one before.

    Args:
        steps: calls; a list of calls is a group, whose results the next call gets as a list.
        options: those of ``Tasks.flow``.

    Raises:
        The errors of ``Tasks.flow`` and ``Flow.add``.
    """
    return _chain(steps, options)


def group(
    *calls: Signature[Any] | Iterable[Signature[Any]], **options: Unpack[FlowOptions]
) -> Flow:
    """
    Return a flow of calls that wait for nothing; its result is the list of their results.

    Args:
        calls: the calls, or an iterable of them.
        options: those of ``Tasks.flow``.

    Raises:
        The errors of ``Tasks.flow`` and ``Flow.add``.
    """
    return _chain(([call for each in calls for call in _calls_of(each)],), options)


def chord(
    header: Iterable[Signature[Any]], callback: Signature[Any], **options: Unpack[FlowOptions]
) -> Flow:
    """
    Return a flow of calls, and one after all of them; its ``RESULT`` is the list of their results.

    Args:
        header: the calls.
        callback: the call after them.
        options: those of ``Tasks.flow``.

    Raises:
        The errors of ``Tasks.flow`` and ``Flow.add``.
    """
    return _chain((header, callback), options)


def _chain(steps: Iterable[Any], options: FlowOptions) -> Flow:
    groups = [(each, _calls_of(each)) for each in steps]
    calls = [call for _, calls in groups for call in calls]
    wrong = next((show_type(each) for each in calls if not isinstance(each, Signature)), None)
    if wrong is not None or not groups or not groups[-1][1]:
        hint = "Pass calls, as in add.signature(2, 2); a group in a chain is a list of calls."
        raise InvalidFormat("calls", value=wrong or Shown("no call at the end"), hint=hint)
    sender = cast("FlowSender", calls[0].sender)
    flow = Flow(sender, is_list=not isinstance(groups[-1][0], Signature), **options)
    before: Node | list[Node] | None = None
    result: Any = RESULT
    for step, group_calls in groups:
        added = [flow.add(with_result(each, result), before) for each in group_calls]
        result = RESULT if added else RESULT([])  # of an empty group, which nothing waits for
        if added:
            before = added[0] if isinstance(step, Signature) else added
    return flow


def _calls_of(step: Any) -> list[Any]:
    """Return the calls of a group, or a single call as a list."""
    is_group = isinstance(step, Iterable) and not isinstance(step, str)
    return list(step) if is_group else [step]
