"""
Receives for a client that may leave before it gets its messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, NoReturn, TypeVar

from redis.exceptions import RedisError

from rsmq.errors import RSMQError
from rsmq.web.client import Client

T = TypeVar("T")

#: Turns of the event loop in which an end of the stream that has arrived reaches ``Departure``:
#: the socket is read, the connection is reported lost, the waiter wakes up.
_TURNS = 4


#: Where a server puts a connection into the scope of a request: see ``connection.py``.
CONNECTION = "rsmq.connection"

#: Releases that run, so that they are not collected as garbage.
_releases: set[asyncio.Task[None]] = set()


class ClientLeft(Exception):
    """The client has left, so there is no one to answer."""


class Departure:
    """Learns whether the client of a request has left. It may watch when the body was read."""

    def __init__(
        self, receive: Callable[[], Awaitable[Any]], scope: Mapping[str, Any] | None = None
    ) -> None:
        """
        Make it.

        Args:
            receive: that of the request.
            scope: that of the request; it may have a connection that sees more.
        """
        self._receive = receive
        self._connection = None if scope is None else scope.get(CONNECTION)
        self._task: asyncio.Task[None] | None = None

    def wait(self) -> asyncio.Future[None]:
        """Return a future that is done when the client has left."""
        if self._task is None:
            self._task = asyncio.create_task(self._watch())
        return asyncio.shield(self._task)

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def has_left(self) -> bool:
        """
        Return whether the client has left, as far as this machine knows.

        After it, nothing may give the event loop a turn before the answer is written.
        """
        if self._connection is not None:
            is_closed: bool | None = self._connection.is_closed_by_peer()
            if is_closed is not None:
                return is_closed
        if self._task is None:
            self._task = asyncio.create_task(self._watch())
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        return self._task.done()

    def end(self) -> None:
        """Watch no longer."""
        # A cancelled task keeps the frame of its error, which has this object.
        task, self._task = self._task, None
        if task is not None:
            task.cancel()


async def while_connected(
    receive: Coroutine[Any, Any, T],
    has_left: Callable[[], asyncio.Future[None]],
    give_back: Callable[[T], Awaitable[None]],
    watch: asyncio.Future[NoReturn] | None = None,
) -> T:
    """
    Return the result of a receive, unless the client leaves before.

    Args:
        receive: if it is cancelled, it releases its messages.
        give_back: releases a result that did not arrive.
        watch: its error ends the receive, too.

    Raises:
        ClientLeft: the client has left, and the receive is cancelled.
    """
    receiving = asyncio.ensure_future(receive)
    ends: list[asyncio.Future[Any]] = [has_left()]
    if watch is not None:
        ends.append(watch)
    try:
        await asyncio.wait({receiving, *ends}, return_when=asyncio.FIRST_COMPLETED)
        if receiving.done():
            return receiving.result()
        for each in ends:
            if each.done():
                each.result()
        raise ClientLeft
    except asyncio.CancelledError:
        if receiving.done() and not receiving.cancelled() and not receiving.exception():
            await give_back(receiving.result())
        raise
    finally:
        for each in ends:
            each.cancel()
        if not receiving.done():
            receiving.cancel()
            with suppress(asyncio.CancelledError, RedisError, RSMQError, OSError):
                await receiving


async def check_presence(queues: Client, messages: Any, departure: Departure) -> None:
    """
    Return if the client is still there; otherwise, and if the server stops, release messages.

    Raises:
        ClientLeft: the client has left.
    """
    if not messages:
        return
    try:
        if not await departure.has_left():
            return
    except asyncio.CancelledError:
        await release(queues, messages)
        raise
    await release(queues, messages)
    raise ClientLeft


async def send_whole(
    scope: Mapping[str, Any],
    send: Callable[[Any], Awaitable[None]],
    start: Mapping[str, Any],
    body: bytes,
) -> None:
    """Send an answer whose body is one piece; in one packet if the server has such connections."""
    joined: AbstractContextManager[Any] = scope.get(CONNECTION) or nullcontext()
    with joined:
        await send(start)
        await send({"type": "http.response.body", "body": body})


async def release(queues: Client, messages: Any) -> None:
    """Release messages; if Redis is away, they become visible when their time ends."""
    if messages:
        with suppress(RedisError, RSMQError, OSError):
            await asyncio.shield(queues.release_messages(messages))


def release_if_unread(scope: Mapping[str, Any], queues: Client, messages: Any) -> None:
    """
    Release messages, which are sent next, as soon as it is seen that the client has not read them.

    Servers whose connections can't see it do nothing.
    """
    connection = scope.get(CONNECTION)
    if not messages or connection is None:
        return

    def start() -> None:
        task = asyncio.get_running_loop().create_task(release(queues, messages))
        _releases.add(task)
        task.add_done_callback(_releases.discard)

    connection.when_unread(start)
