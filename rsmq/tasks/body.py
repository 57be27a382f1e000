"""
The body of a task: ``{"task": NAME, "args": {...}}``, which a program in any language can send.

``then`` in a body is the task that follows: its body, with its queue and, as ``result``, the name
of the argument that gets the result. ``map`` names the record of a map: its ``id``, the ``number``
of the message in it, the ``queue`` of the task that follows, and ``results`` if that task takes
the results. ``headers`` are those that were
current at the send, and are so again for the task.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

from rsmq.codecs import JSON
from rsmq.headers import current_headers, use_headers
from rsmq.wire.envelopes import text_headers
from rsmq.worker.outcome import Unroutable
from rsmq.worker.routing import Route


@dataclass(frozen=True, slots=True)
class ResultOfNodes:
    """
    As an argument of the signature of a node of a flow: the results of other nodes.

    Attributes:
        nodes: the nodes.
        is_list: whether it is the list of their results, and not the result of a single one.
    """

    nodes: tuple[Any, ...]
    is_list: bool


class ResultOfTask:
    """The type of ``RESULT``."""

    def __call__(self, nodes: Any) -> Any:
        """
        Return what stands for results in the arguments of a node of a flow.

        Args:
            nodes: a node that ``Flow.add`` has returned: its result; a list of nodes: the list of
                their results. The result of a node that has not succeeded is None.
        """
        is_list = isinstance(nodes, list | tuple)
        return ResultOfNodes(tuple(nodes) if is_list else (nodes,), is_list)

    def __repr__(self) -> str:
        return "rsmq.tasks.RESULT"


#: As an argument of the signature of ``then=`` or of a flow: the result of the task before it.
#: ``RESULT(node)`` is that of a node of a flow.
RESULT: Final[Any] = ResultOfTask()


def is_result(value: object) -> bool:
    """Return whether an argument stands for results that are not known yet."""
    return value is RESULT or isinstance(value, ResultOfNodes)


class TaskCodec:
    """A codec of bodies of tasks: JSON, with the current headers."""

    writes_headers = True

    def encode(self, body: Mapping[str, Any]) -> str:
        headers = current_headers()
        return JSON.encode({**body, "headers": dict(headers)} if headers else body)

    def decode(self, raw: bytes) -> Any:
        return JSON.decode(raw)

    def __repr__(self) -> str:
        return "the JSON of a task"


TASK_CODEC = TaskCodec()


def headers_of_task(body: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Return a context manager in which the headers of a body are the current ones."""
    headers = text_headers(body.get("headers"))
    return use_headers(headers) if headers else nullcontext()


def make_body(
    task: str, args: Mapping[str, Any], then: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the body of a call; the arguments are values of JSON, by name."""
    body = {"task": task, "args": dict(args)}
    return body if then is None else {**body, "then": then}


def make_next(queue: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return what ``then`` has in the body of the task before: a body, its queue and its result."""
    args = {name: value for name, value in body["args"].items() if value is not RESULT}
    chosen = {"queue": queue, **body, "args": args}
    results = [name for name, value in body["args"].items() if value is RESULT]
    return {**chosen, "result": results[0]} if results else chosen


@dataclass(frozen=True, slots=True)
class NextTask:
    """
    The call that follows a task when it has returned.

    Attributes:
        queue: the queue of the next task.
        body: the body of the next task; None for a message of a map, whose record has it.
        result: the name of its argument that gets the result; None if none does. For a message of a
            map it is empty if the next task takes the results.
        map_id: the id of the map; empty if the message is not of a map.
        number: the number of the message in the map.
    """

    queue: str
    body: dict[str, Any] | None
    result: str | None = None
    map_id: str = ""
    number: str = ""


def read_next(body: Mapping[str, Any]) -> NextTask | None:
    """
    Return what follows a task; None if nothing does.

    Raises:
        ValueError: the fields of the body are not those of this library.
    """
    then: Any = body.get("then")
    of_map: Any = body.get("map")
    if then is None and of_map is None:
        return None
    try:
        return _read_then(then) if of_map is None else _read_map(of_map)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ValueError(f"then or map is not valid, {type(error).__name__}") from None


def _read_then(then: Any) -> NextTask:
    rest = {name: value for name, value in then.items() if name not in {"queue", "result"}}
    queue, result = _text(then["queue"]), then.get("result")
    _text(rest["task"])
    if not isinstance(rest.get("args", {}), dict):
        raise TypeError
    return NextTask(queue, rest, None if result is None else _text(result))


def _read_map(of_map: Any) -> NextTask:
    number = int(of_map["number"])
    if number < 0:
        raise ValueError
    result = "" if of_map.get("results") is True else None
    return NextTask(_text(of_map["queue"]), None, result, _text(of_map["id"]), str(number))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


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
