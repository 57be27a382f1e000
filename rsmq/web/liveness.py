"""
Whether the servers answer: before calls that may take long, and while receives wait.

A receive that waits sends nothing, so it would notice late that Redis hangs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from redis.exceptions import RedisError, ResponseError

from rsmq.errors import RSMQError
from rsmq.operations.plain import plain_command
from rsmq.web.client import Client
from rsmq.web.problems import unavailable

#: Seconds to wait for the reply of a long call.
_REPLY_SECONDS = 60.0
#: So all waits of a process cost less than one command a second.
_BEAT_SECONDS = 1.5


async def ping(queues: Client) -> None:
    """
    Return when the server of the queues has answered.

    Raises:
        RedisError, RSMQError, OSError: it has not.
    """
    await queues.run(plain_command("PING", key=queues.namespace.queues))


async def client_for_long_call(queues: Client) -> Client:
    """
    Return a client that waits long for replies, after the server has answered.

    A Redis that runs a long script looks like one that hangs. So a long call first asks for a sign
    of life, within the time of other calls.

    Raises:
        Refused: the server does not answer.
    """
    try:
        await ping(queues)
    except ResponseError:
        pass  # it answers
    except (RedisError, RSMQError, OSError):
        raise unavailable() from None
    return queues.with_reply_timeout(_REPLY_SECONDS)


@dataclass(slots=True)
class _Beat:
    """A PING: whether it has ended, and why there was no answer."""

    ended: asyncio.Event = field(default_factory=asyncio.Event)
    error: Exception | None = None


class Liveness:
    """Sends one PING to each server of a client, again and again, while anybody waits."""

    def __init__(self, queues: Client) -> None:
        self._queues = queues
        self._waiting = 0
        self._task: asyncio.Task[None] | None = None
        self._next = _Beat()

    async def watch(self, check: Callable[[], Awaitable[None]]) -> NoReturn:
        """
        Wait until a server does not answer.

        Args:
            check: called after each sign of life; it ends the wait if it raises.

        Raises:
            RedisError, RSMQError, OSError: a server has not answered.
        """
        self._waiting += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        try:
            while True:
                beat = self._next
                await beat.ended.wait()
                if beat.error is not None:
                    raise beat.error.with_traceback(None)  # that of the waits before this one
                await check()
        finally:
            self._waiting -= 1

    async def _run(self) -> None:
        while self._waiting:
            await asyncio.sleep(_BEAT_SECONDS)
            beat = self._next
            try:
                await ping(self._queues)
            except ResponseError:
                pass  # it answers
            except (RedisError, RSMQError, OSError) as error:
                beat.error = error
            self._next = _Beat()
            beat.ended.set()


_of_clients: WeakKeyDictionary[Any, Liveness] = WeakKeyDictionary()


def liveness_of(queues: Client) -> Liveness:
    """Return that which all waits on a client share."""
    return _of_clients.setdefault(queues, Liveness(queues))
