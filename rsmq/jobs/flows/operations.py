"""
Operations on flows of tasks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from rsmq.errors import InvalidFormat, show
from rsmq.jobs.flows.status import FlowState, FlowStatus, NodeState, NodeStatus
from rsmq.operations.arguments import digits
from rsmq.operations.operation import Operation, RetryClass, on_keys
from rsmq.operations.scripts import loader_of
from rsmq.wire.ids import make_id_suffixes, mark_node
from rsmq.wire.jobs import DEFAULT_RESULT_TTL_SECONDS
from rsmq.wire.keys import Namespace
from rsmq.wire.limits import check_whole_number
from rsmq.wire.names import decode_name, encode_name

load = loader_of("jobs")

#: How long a flow is stored while nothing changes, and no worker checks it.
LIFETIME_MS = 7 * 86_400_000
#: The pause between two checks of a flow, and the nodes that one looks at; and those of a read.
CHECK_PAUSE_MS = 60_000
MAX_CHECKED = 1000
MAX_CHECKED_BY_READ = 100
#: The most flows of a list.
MAX_LISTED = 1000
#: The begin of the names of flows among the schedules that are due; no schedule has such a name.
DUE_PREFIX = "flow:"

_DEFINITION = re.compile(rb"(\d*) \w+ ([\d,]*) (\d+) (.*)", re.DOTALL)
_TASK = re.compile(rb'\{"task":"((?:[^"\\]|\\.)*)"')
#: The states that nodes are counted by.
COUNTS = ("pending", "sent", "succeeded", "failed", "cancelled", "expired", "skipped")


@dataclass(slots=True)
class FlowNode:
    """
    A node of a flow that is to be stored.

    Attributes:
        queue: the name of its queue.
        body: the body of its message, with ``result_of`` in the places of results.
        size: the size of the body as maxsize counts it.
        after: the numbers of the nodes before it.
        uses: the numbers of those whose results it takes.
        delay_ms: its delay; None is that of the queue.
    """

    queue: str
    body: bytes
    size: int
    after: Sequence[int]
    uses: Sequence[int]
    delay_ms: int | None = None


@dataclass(slots=True)
class FlowPlan:
    """
    A flow that is to be stored.

    Attributes:
        id: its id: 22 characters of ``A-Z a-z 0-9``.
        nodes: its nodes, each after those that it waits for.
        policy: what follows the failure of a node.
        has_finally: whether the last node runs after all others.
        is_list: whether its result is a list, also of one node.
        ttl_ms: for how long it is stored after its end.
    """

    id: str
    nodes: list[FlowNode] = field(default_factory=list)
    policy: str = "stop"
    has_finally: bool = False
    is_list: bool = False
    ttl_ms: int = 86_400_000


def result_of(number: int) -> bytes:
    """Return what stands for the result of a node in the body of another one."""
    return b"\1%d\1" % number


def added_number(number: int) -> bytes:
    """Return what stands for the number of an added node in its body, by its place among them."""
    return b"\2%d\2" % number


def pack_nodes(nodes: Sequence[FlowNode], awaited: Collection[int]) -> bytes:
    """
    Return nodes for ``added_nodes.lua``, which numbers them from the number of nodes of their flow.

    Args:
        nodes: the nodes, with numbers from 0.
        awaited: the numbers of those that the nodes after the adding one wait for.
    """
    fields = _node_fields(nodes, _following(nodes))
    texts = [
        text
        for number in range(len(nodes))
        for text in (
            *(fields[b"%d:%s" % (number, name)] for name in (b"d", b"t", b"n")),
            b"1" if number in awaited else b"",
        )
    ]
    return b"".join(b"%d %s" % (len(text), text) for text in texts)


def _following(nodes: Sequence[FlowNode]) -> dict[int, list[int]]:
    """Return for each node that others follow their numbers."""
    following: dict[int, list[int]] = {}
    for number, node in enumerate(nodes):
        for before in node.after:
            following.setdefault(before, []).append(number)
    return following


def _node_fields(
    nodes: Sequence[FlowNode], following: Mapping[int, list[int]]
) -> dict[bytes, bytes]:
    """
    Return the fields of nodes, with numbers from 0.

    Args:
        nodes: the nodes.
        following: for each node that others follow their numbers.
    """
    fields = {}
    used = {number for each in nodes for number in each.uses}
    for number, (node, suffix) in enumerate(zip(nodes, make_id_suffixes(len(nodes)), strict=True)):
        queue, after = encode_name(node.queue), b",".join(map(digits, node.after))
        delay = b"" if node.delay_ms is None else digits(node.delay_ms)
        fields[b"%d:d" % number] = b"%s %s %s %d %s%s" % (
            delay, mark_node(suffix), after, len(queue), queue, node.body
        )  # fmt: skip
        others = following.get(number, [])
        is_used = number in used or not others
        fields[b"%d:t" % number] = b",".join(map(digits, others)) + (b"+" if is_used else b"")
        fields[b"%d:n" % number] = digits(len(node.after))
    return fields


def send_flow(namespace: Namespace, plan: FlowPlan, *, realtime: bool) -> Operation[bool]:
    """
    Store a flow, and send the nodes that wait for nothing.

    Args:
        namespace: the namespace of the queues.
        plan: the flow.
        realtime: whether its sends publish Node's notification.

    Returns:
        Whether it was stored; False if there is a flow with this id.
    """
    nodes = plan.nodes
    following = _following(nodes)
    sizes: dict[str, int] = {}
    for node in nodes:
        sizes[node.queue] = max(node.size, sizes.get(node.queue, 0))
    last = len(nodes) - 1
    ends = [number for number in range(len(nodes)) if number not in following]
    chosen = [number for number in ends if not (plan.has_finally and number == last)]
    fields = {
        b"state": b"running",
        b"nodes": digits(len(nodes)),
        b"policy": plan.policy.encode(),
        b"finally": digits(last) if plan.has_finally else b"",
        b"ends": b",".join(map(digits, chosen)),
        b"unsucceeded": digits(len(ends)),
        b"task": task_of(nodes[0].body).encode(),
        b"queues": json.dumps([*sizes]).encode(),
        b"is_list": b"1" if plan.is_list else b"",
        b"channel": namespace.queue("-").channel[:-1] if realtime else b"",
        b"ttl": digits(plan.ttl_ms),
        **dict.fromkeys((name.encode() for name in COUNTS), b"0"),
        b"pending": digits(len(nodes)),
        **_node_fields(nodes, following),
    }
    keys = [namespace.queue(name) for name in sizes]
    first = [number for number, each in enumerate(nodes) if not each.after]
    ready = first[:-1] if plan.has_finally else first
    delays = sum(each.delay_ms or 0 for each in nodes)
    return Operation(
        load("send_flow"),
        (
            namespace.flow(plan.id),
            namespace.due_schedules,
            namespace.flows,
            *(key for each in keys for key in (each.hash, each.zset)),
        ),
        (
            digits(LIFETIME_MS + delays),
            digits(CHECK_PAUSE_MS),
            b" ".join(map(digits, ready)),
            *map(digits, sizes.values()),
            *(word for pair in fields.items() for word in pair),
        ),
        bool,
        # The second run finds the flow that the first one has stored.
        RetryClass.ALWAYS,
        tuple(sizes),
        parse_retried=lambda _reply: True,
    )


def read_flow(
    namespace: Namespace, id: str, nodes: Literal["none", "ends", "all"], *, only_reads: bool
) -> Operation[FlowStatus | None]:
    """
    Read a flow.

    Args:
        id: its id.
        nodes: which of its nodes to return.
        only_reads: whether nothing is written; else nodes end whose messages have left their queues
            without an outcome.
    """
    return on_keys(
        load("read_flow"),
        (namespace.flow(id),),
        (b"1" if only_reads else b"", nodes.encode(), digits(MAX_CHECKED_BY_READ)),
        lambda reply: None if reply is None else _parse_flow(id, *reply),
    )


def list_flows(namespace: Namespace, state: object, most: object) -> Operation[list[FlowStatus]]:
    """
    Read the flows that were sent last, the last one first, without their nodes.

    Args:
        state: only those in this state; None is any.
        most: how many at most.

    Raises:
        InvalidFormat: there is no such state.
        InvalidValue: most is out of range.
    """
    if state is not None and state not in set(FlowState):
        hint = f"The states are {', '.join(FlowState)}."
        raise InvalidFormat("state", value=show(state), hint=hint)
    number = check_whole_number("max_flows", most, 1, MAX_LISTED)
    chosen = b"" if state is None else str(state).encode()
    return on_keys(
        load("list_flows"),
        (namespace.flows,),
        (chosen, digits(number)),
        lambda reply: [_parse_flow(decode_name(id), values, b"", []) for id, values in reply],
    )


def _parse_flow(
    id: str, values: list[bytes | None], last: bytes | None, nodes: list[list[bytes | None]]
) -> FlowStatus:
    state, total, task, queues, is_list, sent_at, ended_at, declared, *counts = values
    first_added = int(declared or total or 0)
    return FlowStatus(
        id,
        FlowState(decode_name(state or b"")),
        int(total or 0),
        {name: int(count or 0) for name, count in zip(COUNTS, counts, strict=True)},
        datetime.fromtimestamp(int(sent_at or 0) / 1000, UTC),
        None if ended_at is None else datetime.fromtimestamp(int(ended_at) / 1000, UTC),
        tuple(_parse_node(each, last or b"", first_added) for each in nodes),
        is_list=bool(is_list),
        task=(task or b"?").decode(errors="replace"),
        queues=tuple(json.loads(queues or b"[]")),
    )


def _parse_node(node: list[bytes | None], last: bytes, first_added: int) -> NodeStatus:
    number, state, message_id, definition, result, error = node
    found = _DEFINITION.fullmatch(definition or b"")
    after, queue, body = b"", b"", b""
    if found is not None:
        after, length = found[2], int(found[3])
        queue, body = found[4][:length], found[4][length:]
    return NodeStatus(
        int(number or 0),
        task_of(body),
        decode_name(queue),
        tuple(int(each) for each in after.split(b",") if each),
        NodeState(decode_name(state or b"")),
        decode_name(message_id) if message_id else None,
        result,
        None if error is None else error.decode(errors="replace"),
        is_finally=number == last,
        is_added=int(number or 0) >= first_added,
    )


def task_of(body: bytes) -> str:
    """Return the name of the task in the body of a node."""
    task = _TASK.match(body)
    return "?" if task is None else task[1].decode(errors="replace")


def check_flow(namespace: Namespace, id: str) -> Operation[bool]:
    """
    Check some nodes of a flow, and plan the next check. Return whether the flow runs.

    Args:
        id: its id.
    """
    return on_keys(
        load("check_flow"),
        (namespace.flow(id), namespace.due_schedules),
        (digits(CHECK_PAUSE_MS), digits(MAX_CHECKED), digits(LIFETIME_MS)),
        bool,
    )


def cancel_flow(namespace: Namespace, id: str) -> Operation[str | None]:
    """
    Cancel a flow.

    Args:
        id: its id.

    Returns:
        cancelled, requested if consumers have messages of it, or the state in which it had ended
        before; None if there is none.
    """
    return on_keys(
        load("cancel_flow"),
        (namespace.flow(id),),
        (digits(round(DEFAULT_RESULT_TTL_SECONDS * 1000)),),
        lambda reply: None if reply is None else decode_name(reply),
    )
