"""
``Flow``, a graph of calls: each is sent when those before it have succeeded.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, TypedDict, Unpack, cast

from rsmq._sync.client import RSMQ
from rsmq.aio import AsyncRSMQ
from rsmq.errors import InvalidFormat, InvalidValue, QueueNotFound, Shown, show, show_type
from rsmq.flows.asyncio_ import AsyncFlowHandle
from rsmq.flows.operations import COUNTS, FlowNode, FlowPlan, result_of, send_flow
from rsmq.flows.status import FlowState, FlowStatus, NodeState, NodeStatus
from rsmq.flows.threads import FlowHandle
from rsmq.jobs.status import JobStatus
from rsmq.operations.arguments import encode_body
from rsmq.operations.operation import Operation
from rsmq.tasks.body import RESULT, TASK_CODEC, ResultOfNodes, is_result
from rsmq.tasks.signature import Signature, TaskSender, check_call
from rsmq.waiting.event_loop import warn_in_event_loop
from rsmq.wire.ids import make_flow_id
from rsmq.wire.limits import MAX_SECONDS, check_duration, check_label, to_milliseconds, utf16_length

MAX_NODES = 1000
MAX_FLOW_BYTES = 16 * 1024 * 1024
DEFAULT_FLOW_TTL_SECONDS = 86_400.0
_OPTIONS_OF_NODES = {"delay"}


class FlowSender(TaskSender, Protocol):
    """Sends flows; ``Tasks`` does."""

    @property
    def client(self) -> RSMQ[Any]:
        """The synchronous client."""

    @property
    def aio(self) -> AsyncRSMQ[Any]:
        """The asyncio client."""

    def run_now(self, signature: Signature[Any]) -> JobStatus[Any]:
        """Call a function here, as within ``immediate``."""

    def decode_result_of(self, task: str, value: Any) -> Any:
        """Return the result of a task, by its name and the value of JSON."""


class FlowOptions(TypedDict, total=False):
    """The options of ``Tasks.flow``, which describes them."""

    on_failure: Literal["stop", "continue"]
    finally_: Signature[Any] | None
    dedup_id: str | None
    result_ttl: float


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


class Flow:
    """
    A graph of calls, which ``Tasks.flow`` makes; nothing is sent before ``send``.

    Attributes:
        id: the id under which it is stored.
        nodes: its calls, in the order in which they were added.
    """

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
        self._sender = sender
        self.id: str = make_flow_id(dedup_id)
        self.nodes: list[Node] = []
        self._is_list = is_list
        self._was_sent = False
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
        self._check(signature)
        if len(self.nodes) + (self._finally is not None) >= MAX_NODES:
            raise InvalidValue("number of nodes", 1, MAX_NODES, value=len(self.nodes) + 1)
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
        node = Node(len(self.nodes), replace(signature, args=args), tuple(before))
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

    def _check(self, signature: object) -> Signature[Any]:
        if self._was_sent:
            hint = "Make another flow for further calls."
            raise InvalidFormat("flow", value=Shown("it was sent"), hint=hint)
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
        operation = self._make_operation(realtime=client.realtime)
        try:
            client.run(operation)
        except QueueNotFound:
            for name in operation.queues:
                client.create_queue(name, exist_ok=True)
            client.run(operation)
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
        operation = self._make_operation(realtime=client.realtime)
        try:
            await client.run(operation)
        except QueueNotFound:
            for name in operation.queues:
                await client.create_queue(name, exist_ok=True)
            await client.run(operation)
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
        self._was_sent = True
        return send_flow(self._sender.client.namespace, plan, realtime=realtime)

    def _run(self) -> FlowStatus:
        """Call the functions here, each after those before it; for ``Tasks.immediate``."""
        ended: dict[int, NodeStatus] = {}
        self._was_sent = True
        sent_at, followed = datetime.now(UTC), {each for node in self.nodes for each in node.after}
        try:
            for node in self.nodes:
                has_failed = any(each.state is not NodeState.SUCCEEDED for each in ended.values())
                if has_failed and self._policy == "stop":
                    ended[node.number] = _make_status(node, NodeState.SKIPPED)
                else:
                    ended[node.number] = self._call(node, ended)
        finally:
            for node in self._all_nodes()[len(self.nodes) :]:
                ended[node.number] = replace(self._call(node, ended), is_finally=True)
        ends = [ended[each.number] for each in self.nodes if each not in followed]
        is_failed = any(each.state is not NodeState.SUCCEEDED for each in ends)
        counts = dict.fromkeys(COUNTS, 0)
        for status in ended.values():
            counts[status.state] += 1
        return FlowStatus(
            self.id,
            FlowState.FAILED if is_failed else FlowState.SUCCEEDED,
            len(ended),
            counts,
            sent_at,
            datetime.now(UTC),
            list(ended.values()),
            self._is_list,
        )

    def _call(self, node: Node, ended: dict[int, NodeStatus]) -> NodeStatus:
        args = dict(node.signature.args)
        for name, value in args.items():
            if isinstance(value, ResultOfNodes):
                raws = (ended[each.number].raw_result for each in value.nodes)
                results = [json.loads(raw or b"null") for raw in raws]
                args[name] = results if value.is_list else results[0]
        job = self._sender.run_now(replace(node.signature, args=args))
        state = NodeState(job.state) if job.is_ended else NodeState.FAILED
        status = _make_status(node, state)
        return replace(status, id=job.id, raw_result=job.raw_result, error=job.error)

    def __repr__(self) -> str:
        return f"Flow({self.id!r}, {len(self.nodes)} nodes)"


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


def _make_status(node: Node, state: NodeState) -> NodeStatus:
    call, after = node.signature, tuple(each.number for each in node.after)
    return NodeStatus(node.number, call.task, call.queue, after, state)


def encode_node(flow_id: str, node: Node) -> FlowNode:
    """
    Return a node as it is stored.

    Raises:
        MessageNotString: an argument is not a value of JSON.
    """
    signature, mark = node.signature, secrets.token_hex(16)
    results = {
        name: value for name, value in signature.args.items() if isinstance(value, ResultOfNodes)
    }
    args = {**signature.args, **{name: mark + name for name in results}}
    body = {**signature.body_of(args), "flow": {"id": flow_id, "node": node.number}}
    raw, _ = encode_body(body, TASK_CODEC)
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
        added = [flow.add(_pass_result(each, result), before) for each in group_calls]
        result = RESULT if added else RESULT([])  # of an empty group, which nothing waits for
        if added:
            before = added[0] if isinstance(step, Signature) else added
    return flow


def _pass_result(call: Signature[Any], result: Any) -> Signature[Any]:
    """Return a call with another value in place of ``RESULT``."""
    args = {name: result if value is RESULT else value for name, value in call.args.items()}
    return replace(call, args=args)


def _calls_of(step: Any) -> list[Any]:
    """Return the calls of a group, or a single call as a list."""
    is_group = isinstance(step, Iterable) and not isinstance(step, str)
    return list(step) if is_group else [step]
