"""
The body of a task: ``{"task": NAME, "args": {...}}``, which a program in any language can send.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rsmq.worker.outcome import Unroutable
from rsmq.worker.routing import Route


def make_body(task: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a call; the arguments are values of JSON, by name."""
    return {"task": task, "args": dict(args)}


def make_route(queue: str, names: Mapping[str, object]) -> Route:
    """
    Return a route of bodies to the tasks of a queue, by their names.

    The route raises Unroutable if a body is not that of one of these tasks.
    """

    def route(body: Any) -> tuple[str, dict[str, Any]]:
        if not isinstance(body, dict) or not isinstance(body.get("task"), str):
            raise Unroutable(
                'the body is not that of a task, which is {"task": "NAME", "args": {...}}'
            )
        name, args = body["task"], body.get("args", {})
        if name not in names:
            raise Unroutable(
                f"there is no task {name[:200]!r} for queue {queue!r} in this worker; its tasks "
                f"are {', '.join(names)}"
            )
        if not isinstance(args, dict):
            raise Unroutable(f"task {name}: args must be a JSON object of arguments by name")
        return name, body

    return route
