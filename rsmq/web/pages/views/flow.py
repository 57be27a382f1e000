"""
The flows of tasks; the graph of one, and its nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from rsmq.errors import QueueNotFound
from rsmq.jobs.flows.status import FlowState
from rsmq.web.pages.table import PageCall, PageEntry
from rsmq.web.pages.views.figures import StateTab, state_tabs
from rsmq.web.routes.explanations import MessageWhyJson
from rsmq.web.routes.flows import FlowJson, FlowsJson, FlowWithNodesJson, NodeJson
from rsmq.web.table import Scope

#: The largest graph that is drawn; of larger ones there is the table only.
_MAX_DRAWN = 200
#: The most nodes in the table.
_MAX_ROWS = 1000
#: The most flows of the list.
_MAX_LISTED = 100
_WIDTH, _HEIGHT = 170, 34
_STEP_X, _STEP_Y = 220, 48
_MARGIN = 10
_MAX_CHARACTERS = 20
#: The states of nodes without a job: it was not sent, or has left nothing.
_JOBLESS = {"pending", "skipped", "expired", "cancelled"}
#: The states of nodes that were sent and have not ended; of so many it is said why.
_SENT, _MAX_EXPLAINED = {"waiting", "running", "retrying"}, 5
#: The sign and the class of each state.
_SIGNS = {
    "pending": ("·", "plain"),
    "waiting": ("…", "plain"),
    "running": ("▶", "plain"),
    "retrying": ("↻", "warn"),
    "succeeded": ("✓", "good"),
    "failed": ("✗", "bad"),
    "cancelled": ("⊘", "warn"),
    "expired": ("?", "warn"),
    "skipped": ("∅", "plain"),
}


@dataclass(frozen=True, slots=True)
class _Box:
    """A node in the drawing; ``job`` is its queue and its id, None without a job."""

    x: int
    y: int
    sign: str
    kind: str
    text: str
    title: str
    job: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class Graph:
    """
    A drawing of a flow, from left to right.

    Attributes:
        boxes: its nodes.
        edges: the paths of SVG between them.
    """

    width: int
    height: int
    boxes: Sequence[_Box]
    edges: Sequence[str]


def draw(nodes: Sequence[NodeJson]) -> Graph | None:
    """
    Return the drawing of nodes, each to the right of those before it.

    Args:
        nodes: as in the answer of the API.

    Returns:
        The drawing; None if there are too many nodes.
    """
    if len(nodes) > _MAX_DRAWN:
        return None
    columns = _columns(nodes)
    rows: dict[int, int] = {}
    boxes: dict[int, _Box] = {}
    for node in nodes:
        number = node["number"]
        column = columns[number]
        row = rows[column] = rows.get(column, -1) + 1
        sign, kind = _SIGNS[node["state"]]
        task = node["task"]
        text = task if len(task) <= _MAX_CHARACTERS else f"…{task[1 - _MAX_CHARACTERS :]}"
        x, y = _MARGIN + column * _STEP_X, _MARGIN + row * _STEP_Y
        title = f"{number}: {task}, {node['state']}"
        boxes[number] = _Box(x, y, sign, kind, text, title, _job_of(node))
    edges = []
    for node in nodes:
        end = boxes[node["number"]]
        for begin in (boxes[each] for each in node["after"] if each in boxes):
            x, y, to_y = begin.x + _WIDTH, begin.y + _HEIGHT // 2, end.y + _HEIGHT // 2
            middle = (x + end.x) // 2
            edges.append(f"M{x} {y}C{middle} {y} {middle} {to_y} {end.x} {to_y}")
    width = max((each.x for each in boxes.values()), default=0) + _WIDTH + _MARGIN
    height = max((each.y for each in boxes.values()), default=0) + _HEIGHT + _MARGIN
    return Graph(width, height, [*boxes.values()], edges)


def _job_of(node: NodeJson) -> tuple[str, str] | None:
    id = None if node["state"] in _JOBLESS else node["id"]
    return (node["queue"], id) if id else None


def _columns(nodes: Sequence[NodeJson]) -> dict[int, int]:
    """Return the column of each node by its number, behind those before it, in any order."""
    columns: dict[int, int] = {}
    left = [node for node in nodes if not node["is_finally"]]
    while left:
        ready = [node for node in left if columns.keys() >= set(node["after"])]
        for node in ready or left:  # others than this library may have stored a circle
            before = [columns[each] + 1 for each in node["after"] if each in columns]
            columns[node["number"]] = max(before, default=0)
        left = [node for node in left if node["number"] not in columns]
    last = max(columns.values(), default=-1) + 1
    return {**{node["number"]: last for node in nodes}, **columns}


@dataclass(frozen=True, slots=True)
class WaitingNode:
    """A node that was sent and has not ended, and why, in a sentence."""

    node: NodeJson
    cause: str
    sentence: str


@dataclass(frozen=True, slots=True)
class FlowPage:
    """A flow, its drawing, how many of its nodes are in each state, and what it waits for."""

    signs: ClassVar[Mapping[str, tuple[str, str]]] = _SIGNS
    jobless: ClassVar[Collection[str]] = _JOBLESS
    most: ClassVar[int] = _MAX_DRAWN
    most_rows: ClassVar[int] = _MAX_ROWS
    box: ClassVar[tuple[int, int]] = (_WIDTH, _HEIGHT)
    flow: FlowWithNodesJson
    graph: Graph | None
    counts: list[tuple[str, int]]
    waits: list[WaitingNode]


async def _show(call: PageCall) -> FlowPage:
    flow = await call.read(FlowWithNodesJson, {"flow": call.names["flow"]})
    counts = [(name, number) for name, number in flow["counts"].items() if number]
    return FlowPage(flow, draw(flow["nodes"]), counts, await _explain(call, flow["nodes"]))


async def _explain(call: PageCall, nodes: Sequence[NodeJson]) -> list[WaitingNode]:
    """Return the first nodes that were sent and have not ended, with ``why``: a few commands."""
    found: list[WaitingNode] = []
    for node in [each for each in nodes if each["state"] in _SENT][:_MAX_EXPLAINED]:
        names = {"queue": node["queue"], "id": node["id"] or ""}
        with suppress(QueueNotFound):
            why = await call.read(MessageWhyJson, names)
            found.append(WaitingNode(node, why["cause"], why["sentence"]))
    return found


@dataclass(frozen=True, slots=True)
class FlowsPage:
    """The flows that were sent last, those in a state or all."""

    limit: ClassVar[int] = _MAX_LISTED
    flows: list[FlowJson]
    state: str | None
    tabs: list[StateTab]


async def _list(call: PageCall) -> FlowsPage:
    state = call.query.get("state") or None
    found = await call.read(FlowsJson, state=state, limit=_MAX_LISTED)
    return FlowsPage(found["flows"], state, state_tabs(FlowState, state))


PAGES = (
    PageEntry("/flows", "flows.html", Scope.PEEK, _list, menu="Flows"),
    PageEntry("/flows/{flow}", "flow.html", Scope.PEEK, _show, below="/flows"),
)
