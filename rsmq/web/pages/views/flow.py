"""
The flows of tasks; the graph of one, and its nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rsmq.jobs.flows.status import FlowState
from rsmq.web.pages.links import with_query
from rsmq.web.pages.table import PageCall, PageEntry
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


def draw(nodes: Sequence[Mapping[str, Any]]) -> Graph | None:
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


def _job_of(node: Mapping[str, Any]) -> tuple[str, str] | None:
    is_known = node["id"] and node["state"] not in _JOBLESS
    return (node["queue"], node["id"]) if is_known else None


def _columns(nodes: Sequence[Mapping[str, Any]]) -> dict[int, int]:
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


async def _show(call: PageCall) -> Mapping[str, Any]:
    flow = await call.read("/flows/{flow}", {"flow": call.names["flow"]})
    return {
        "flow": flow,
        "graph": draw(flow["nodes"]),
        "signs": _SIGNS,
        "jobless": _JOBLESS,
        "most": _MAX_DRAWN,
        "most_rows": _MAX_ROWS,
        "box": (_WIDTH, _HEIGHT),
        "counts": [(name, number) for name, number in flow["counts"].items() if number],
        "is_ended": flow["is_ended"],
    }


async def _list(call: PageCall) -> Mapping[str, Any]:
    state = call.query.get("state") or None
    found = await call.read("/flows", state=state, limit=_MAX_LISTED)
    return {
        "flows": found["flows"],
        "limit": _MAX_LISTED,
        "state": state,
        "tabs": [
            (name.capitalize(), with_query({"state": value}) or "?", value == state)
            for name, value in (("all", None), *((each.value, each.value) for each in FlowState))
        ],
    }


PAGES = (
    PageEntry("/flows", "flows.html", Scope.PEEK, _list, menu="Flows"),
    PageEntry("/flows/{flow}", "flow.html", Scope.PEEK, _show, below="/flows"),
)
