"""
A call of a Django task, and its form in the body of a message.

The body is that of ``rsmq.tasks``, ``{"task": PATH, "args": {...}}``, with more fields where they
are needed: ``positional``, the arguments without names; ``priority``; and ``run_after``.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.module_loading import import_string

from rsmq.django.task_interface import Task


class InvalidCall(Exception):
    """A body does not call a task of this project."""


@dataclass(frozen=True, slots=True)
class DjangoCall:
    """
    A call as a message has it.

    Attributes:
        path: the module and the name of the task's function.
        args: its positional arguments, values of JSON.
        kwargs: its arguments by name, values of JSON.
        priority: from -100 to 100.
        run_after: when it may run; None is at once.
    """

    path: str
    args: list[Any]
    kwargs: dict[str, Any]
    priority: int
    run_after: datetime | None


def check_arguments(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """
    Check that a function can be called with these arguments.

    Raises:
        TypeError: it can't; the text names the task and the argument.
    """
    values = (None, *args) if task.takes_context else args
    signature = inspect.signature(task.func)
    try:
        signature.bind(*values, **kwargs)
    except TypeError as error:
        raise TypeError(f"{task.module_path}: {error}; its parameters are {signature}") from None


def encode_call(task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a call; the arguments are values of JSON."""
    body: dict[str, Any] = {"task": task.module_path, "args": dict(kwargs)}
    if args:
        body["positional"] = list(args)
    if task.priority:
        body["priority"] = task.priority
    if task.run_after is not None:
        body["run_after"] = task.run_after.isoformat()
    return body


def decode_call(body: Any) -> DjangoCall:
    """
    Return the call in a body of any producer.

    Raises:
        InvalidCall: it is not such a body.
    """
    if not isinstance(body, dict) or not isinstance(body.get("task"), str):
        raise InvalidCall(
            'the body is not that of a task, which is {"task": "PATH", "args": {...}}'
        )
    args, positional = body.get("args", {}), body.get("positional", [])
    priority, run_after = body.get("priority", 0), body.get("run_after")
    if not isinstance(args, dict) or not isinstance(positional, list):
        raise InvalidCall("args is not an object of arguments by name, or positional not a list")
    if not isinstance(priority, int) or not isinstance(run_after, str | None):
        raise InvalidCall("priority is not a whole number, or run_after not a text")
    try:
        time = None if run_after is None else datetime.fromisoformat(run_after)
    except ValueError:
        raise InvalidCall("run_after is not a time in ISO 8601") from None
    return DjangoCall(body["task"], positional, args, priority, time)


def find_task(call: DjangoCall, queue: str, backend: str) -> Any:
    """
    Return the task of a call, with the attributes that it was enqueued with.

    Args:
        queue: the name of its queue, without a level.
        backend: the alias of the backend.

    Raises:
        InvalidCall: the path does not name a task.
        The errors of ``Task.using``, and of the task's module.
    """
    try:
        task = import_string(call.path)
    except ImportError as error:
        raise InvalidCall(f"there is no task {call.path[:200]!r}: {error}") from error
    if not isinstance(task, Task):
        raise InvalidCall(f"{call.path[:200]!r} is not a task: its function needs @task")
    return task.using(
        priority=call.priority, queue_name=queue, run_after=call.run_after, backend=backend
    )
