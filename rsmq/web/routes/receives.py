"""
Operations that receive messages, as JSON.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Annotated, Any, TypedDict, TypeVar

from rsmq.codecs import blocks
from rsmq.errors import ClientClosed
from rsmq.model import Message
from rsmq.web.access.principals import unauthorized
from rsmq.web.bodies import bodies_of, load_stored
from rsmq.web.delivery import release, while_connected
from rsmq.web.fields import Field, Refused, Shape
from rsmq.web.liveness import liveness_of
from rsmq.web.routes.forms import QUEUE, ReceivedJson, check_number, show_message
from rsmq.web.send_fields import list_arguments
from rsmq.web.table import ApiAnswer, ApiCall, Route, Scope

T = TypeVar("T")


_MAX, VT, WAIT, _EXTEND_GROUPS = list_arguments("receive_messages")
_QUEUES = Field("queues", Shape.TEXTS, "The queues, in the order of their priority.", required=True)


class ReceivedMessagesJson(TypedDict):
    """The messages of a receive."""

    messages: Annotated[list[ReceivedJson], "The messages; an empty list if there are none."]


async def receive(call: ApiCall, names: list[str], number: int) -> list[Message[Any]]:
    """Receive messages; a client that leaves gets none."""

    async def give_back(messages: list[Message[Any]]) -> None:
        await release(call.queues, messages)

    wait = check_number(WAIT, call)
    receiving = _receive_some(call, names, number, wait)
    if not wait:  # the answer comes soon; a client that leaves is seen before it is sent
        return await receiving
    received = await while_admitted(call, _until_stop(receiving), give_back)
    if not await call.keeps_rights():
        await give_back(received)
        raise _rights_changed()
    return received


async def while_admitted(
    call: ApiCall, waiting: Coroutine[Any, Any, T], give_back: Callable[[T], Awaitable[None]]
) -> T:
    """
    Wait until the client leaves, has other rights, or a server gives no sign of life.

    Args:
        give_back: undoes what the wait has returned, if the client has left.
    """

    async def check() -> None:
        if not await call.keeps_rights():
            raise _rights_changed()

    watch = liveness_of(call.queues).watch(check)
    return await while_connected(waiting, call.has_left, give_back, watch)


def _rights_changed() -> Refused:
    return unauthorized("The caller is not known any more, or its rights have changed")


async def _receive_some(
    call: ApiCall, names: list[str], number: int, wait: float
) -> list[Message[Any]]:
    queues: Any = call.queues
    vt, codec = call.values.get("vt"), bodies_of(queues)
    if number == 1 and len(names) == 1:  # its script is shorter
        found = await queues.receive_message(names[0], vt=vt, wait=wait, codec=codec)
        return [] if found is None else await load_stored(queues, [found])
    received: list[Message[Any]] = await queues.receive_messages(
        names,
        number,
        vt=vt,
        wait=wait,
        codec=codec,
        extend_groups=_EXTEND_GROUPS.read(call.values),
    )
    return await load_stored(queues, received)


async def pop(call: ApiCall, names: list[str], number: int) -> list[Message[Any]]:
    """Pop messages. Messages are lost if the client leaves before it gets them."""
    queues: Any = call.queues
    wait = check_number(WAIT, call)
    codec = call.codec
    if blocks(codec):
        number = 1  # a popped body must be loaded, whatever its size
    popping = queues.pop_messages(names, number, wait=wait, codec=codec)
    if not wait:
        popped: list[Message[Any]] = await popping
        return popped
    return await while_admitted(call, _until_stop(popping), _lose)


async def _until_stop(receiving: Awaitable[list[Message[Any]]]) -> list[Message[Any]]:
    """Return what a wait receives; nothing if it ends because the server stops."""
    try:
        return await receiving
    except ClientClosed:
        return []


async def _lose(_: list[Message[Any]]) -> None:
    """A pop is delivered at most once."""


def _names_of(call: ApiCall) -> list[str]:
    names: list[str] = call.values["queues"]
    for name in names:
        call.allow(Scope.RECEIVE, name)
    return names


async def _receive(call: ApiCall) -> ApiAnswer:
    found = await receive(call, _names_of(call), _MAX.read(call.values))
    return ApiAnswer({"messages": [show_message(each) for each in found]}, messages=tuple(found))


async def _pop(call: ApiCall) -> ApiAnswer:
    found = await pop(call, _names_of(call), _MAX.read(call.values))
    return ApiAnswer({"messages": [show_message(each) for each in found]})


async def _recover(call: ApiCall) -> ApiAnswer:
    call.allow(Scope.RECEIVE, call.names[QUEUE])  # it shows the bodies
    found = await call.queues.recover_messages(
        call.names[QUEUE],
        _MAX_RECOVERED.read(call.values),
        idle=call.values["idle"],
        vt=call.values.get("vt"),
        codec=bodies_of(call.queues),
    )
    found = await load_stored(call.queues, found)
    return ApiAnswer({"messages": [show_message(each) for each in found]}, messages=tuple(found))


_IDLE, _MAX_RECOVERED, _ = list_arguments("recover_messages")

ROUTES = (
    Route(
        "POST", "/receive", Scope.RECEIVE, "Receive messages, and hide them from others.",
        _receive, ("receive_message", "receive_messages"),
        body=(_QUEUES, _MAX, VT, WAIT, _EXTEND_GROUPS),
        result=ReceivedMessagesJson,
    ),
    Route(
        "POST", "/pop", Scope.RECEIVE, "Receive messages and delete them at once.", _pop,
        ("pop_message", "pop_messages"), body=(_QUEUES, _MAX, WAIT), result=ReceivedMessagesJson,
    ),
    Route(
        "POST", "/queues/{queue}/messages:recover", Scope.MANAGE,
        "Receive messages again that were received long ago and not deleted.", _recover,
        ("recover_messages",), body=(_IDLE, _MAX_RECOVERED, VT), result=ReceivedMessagesJson,
    ),
)  # fmt: skip
