"""
The eight routes of rest-rsmq: what each does, and what it answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from rsmq.vocabulary.queues import NODE_SETTINGS, show_as_node
from rsmq.web.bodies import BODIES
from rsmq.web.client import Client
from rsmq.web.rest_rsmq.values import NodeError, check_id, check_name, read_number, require_number
from rsmq.web.table import Scope

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class NodeRequest:
    """
    Attributes:
        body: the fields of the body; empty without one.
        query: the fields of the query.
    """

    names: tuple[str, ...]
    body: Mapping[str, Any]
    query: Mapping[str, Any]

    def either(self, name: str) -> Any:
        """Return a field of the body, or else of the query."""
        value = self.body.get(name)
        return self.query.get(name) if value is None else value


@dataclass(frozen=True, slots=True)
class NodeResult:
    """The content of an answer, and the messages that it hands over."""

    content: Any
    messages: tuple[Any, ...] = ()


Handler = Callable[[Client, NodeRequest], Coroutine[Any, Any, NodeResult]]


async def _list(queues: Client, _: NodeRequest) -> NodeResult:
    return NodeResult({"queues": await queues.list_queues()})


async def _attributes(queues: Client, request: NodeRequest) -> NodeResult:
    found = await queues.get_queue_attributes(check_name(request.names[0]))
    return NodeResult(show_as_node(found))


async def _create(queues: Client, request: NodeRequest) -> NodeResult:
    name = check_name(request.names[0])
    values = {
        item: read_number(item, request.body.get(item), setting.default)
        for item, setting in NODE_SETTINGS.items()
    }
    await queues.create_queue(name, **values)
    return NodeResult({"result": 1})


async def _delete_queue(queues: Client, request: NodeRequest) -> NodeResult:
    await queues.delete_queue(check_name(request.names[0]))
    return NodeResult({"result": 1})


async def _send(queues: Client, request: NodeRequest) -> NodeResult:
    name = check_name(request.names[0])
    message, delay = request.body.get("message"), request.body.get("delay")
    # The original looks for the queue before it checks the values.
    if delay is not None or not isinstance(message, str):
        await queues.get_queue_attributes(name)
    seconds = read_number("delay", delay)
    if not isinstance(message, str):
        raise NodeError("messageNotString", "Message must be a string")
    text = _LONE_SURROGATE.sub("\ufffd", message)
    return NodeResult({"id": await queues.send_message(name, text, delay=seconds, codec=BODIES)})


async def _receive(queues: Client, request: NodeRequest) -> NodeResult:
    name, vt = check_name(request.names[0]), request.either("vt")
    if vt is not None:
        await queues.get_queue_attributes(name)
    found = await queues.receive_message(name, vt=read_number("vt", vt), codec=BODIES)
    if found is None:
        return NodeResult({})
    return NodeResult(
        {
            "id": found.id,
            "message": found.raw.decode(errors="replace"),
            "rc": found.receive_count,
            "fr": found.first_received_ms,
            "sent": None if found.sent_ms is None else int(found.sent_ms),
        },
        (found,),
    )


async def _change(queues: Client, request: NodeRequest) -> NodeResult:
    name, id = check_name(request.names[0]), check_id(request.names[1])
    seconds = require_number("vt", request.either("vt"))
    return NodeResult({"result": int(await queues.change_message_visibility(name, id, seconds))})


async def _delete(queues: Client, request: NodeRequest) -> NodeResult:
    name, id = check_name(request.names[0]), check_id(request.names[1])
    return NodeResult({"result": int(await queues.delete_message(name, id))})


#: By the first part of the path, and the number of parts after it. Its documentation has
#: ``message`` for some routes, which the original does not accept.
ROUTES: dict[tuple[str, int], dict[str, tuple[Scope, Handler]]] = {
    ("queues", 0): {"GET": (Scope.STATS, _list)},
    ("queues", 1): {
        "GET": (Scope.STATS, _attributes),
        "POST": (Scope.MANAGE, _create),
        "DELETE": (Scope.DESTROY, _delete_queue),
    },
    ("messages", 1): {"POST": (Scope.SEND, _send), "GET": (Scope.RECEIVE, _receive)},
    ("messages", 2): {"PUT": (Scope.RECEIVE, _change), "DELETE": (Scope.RECEIVE, _delete)},
    ("message", 2): {"PUT": (Scope.RECEIVE, _change), "DELETE": (Scope.RECEIVE, _delete)},
}
