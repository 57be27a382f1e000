"""
A client for calls that may take long on a server that is alive.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, TypeVar

from redis.exceptions import RedisError, ResponseError

from rsmq.aio import AsyncRSMQ
from rsmq.errors import RSMQError
from rsmq.operations.operation import Operation
from rsmq.operations.plain import plain_command
from rsmq.web.client import Client
from rsmq.web.problems import unavailable

T = TypeVar("T")

#: Seconds to wait for the reply of a long call.
_REPLY_SECONDS = 60.0


class PatientClient:
    """
    Waits longer for replies than the client of the server, on the same connections.

    A Redis that runs a long script looks like one that hangs. So a long call first asks for a sign
    of life, within the time of other calls.
    """

    def __init__(self, queues: Client) -> None:
        self._queues = queues
        self._patient = _with_patience(queues)

    async def client(self) -> Client:
        """
        Return the client for a long call, after all servers have answered.

        Raises:
            Refused: one of them does not answer.
        """
        try:
            await ping(self._queues)
        except ResponseError:
            pass  # it answers
        except (RedisError, RSMQError, OSError):
            raise unavailable() from None
        return self._patient


async def ping(queues: Client) -> None:
    """
    Return when each server of the queues has answered.

    Raises:
        RedisError, RSMQError, OSError: one has not.
    """
    asked = set()
    for cell in range(queues.engine.number):
        client: Any = await queues.engine.client(cell)
        caller = id(client._caller)  # noqa: SLF001 - cells on one server share it
        if caller in asked:
            continue
        asked.add(caller)
        await client.run(plain_command("PING", key=client.namespace.queues))


class _PatientCaller:
    """A caller whose calls wait longer for their replies, each on a connection of its own."""

    def __init__(self, caller: Any) -> None:
        self._caller = caller

    def __getattr__(self, name: str) -> Any:
        return getattr(self._caller, name)

    async def run(self, operation: Operation[T]) -> T:
        if operation.reply_timeout is None:
            operation = replace(operation, reply_timeout=_REPLY_SECONDS)
        result: T = await self._caller.run(operation)
        return result


def _with_patience(queues: Client) -> Client:
    copied: Any = copy.copy(queues)
    if isinstance(queues, AsyncRSMQ):
        copied._use_caller(_PatientCaller(queues._caller))  # noqa: SLF001 - of this library
    else:
        callers = queues.engine._callers  # noqa: SLF001 - as above
        # Cells on one server share a caller.
        wrapped = {id(each): _PatientCaller(each) for each in callers}
        copied._open([wrapped[id(each)] for each in callers])  # noqa: SLF001 - as above
    patient: Client = copied
    return patient
