"""
Whether the servers answer: before calls that may take long, and while receives wait.

A receive that waits sends nothing, so it would notice late that Redis hangs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
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
_CHECKS_IN_A_ROW = 50


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


class Liveness:
    """Sends one PING to each server of a client, again and again, while anybody waits."""

    def __init__(self, queues: Client) -> None:
        self._queues = queues
        self._waits: dict[asyncio.Future[NoReturn], Callable[[], Awaitable[None]]] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """How many waits are watched."""
        return len(self._waits)

    def watch(self, check: Callable[[], Awaitable[None]]) -> asyncio.Future[NoReturn]:
        """
        Return a future that fails if a server does not answer. It is cancelled with its wait.

        Args:
            check: called after each sign of life; the future fails if it raises.
        """
        wait: asyncio.Future[NoReturn] = asyncio.get_running_loop().create_future()
        self._waits[wait] = check
        wait.add_done_callback(self._waits.pop)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return wait

    async def _run(self) -> None:
        while self._waits:
            await asyncio.sleep(_BEAT_SECONDS)
            error: Exception | None = None
            try:
                await ping(self._queues)
            except ResponseError:
                pass  # it answers
            except (RedisError, RSMQError, OSError) as found:
                error = found.with_traceback(None)
            await self._end_waits(error)

    async def _end_waits(self, error: Exception | None) -> None:
        """End those waits that may not continue: all after an error of the server."""
        for number, (wait, check) in enumerate(list(self._waits.items())):
            if number % _CHECKS_IN_A_ROW == 0:
                await asyncio.sleep(0)  # so that a message does not wait for thousands of checks
            failure = error
            try:
                if failure is None and not wait.done():
                    await check()
            except Exception as found:  # noqa: BLE001 - the wait raises it
                failure = found
            if failure is not None and not wait.done():
                wait.set_exception(failure)


_of_clients: WeakKeyDictionary[Any, Liveness] = WeakKeyDictionary()


def liveness_of(queues: Client) -> Liveness:
    """Return that which all waits on a client share."""
    return _of_clients.setdefault(queues, Liveness(queues))
