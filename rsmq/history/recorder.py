"""
The recorder of histories: of all processes that run one, one records each minute.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
from typing import Any

from redis.exceptions import RedisError, ResponseError

from rsmq.errors import RSMQError
from rsmq.errors.guarded_log import get_logger
from rsmq.history.operations import QUEUES_PER_STEP, claim_minute, record_minute
from rsmq.operations.background_task import BackgroundTask
from rsmq.operations.queues import list_queues_in_steps

_log = get_logger("rsmq.history")

_MINUTE_MS = 60_000
#: All processes wake up within so many seconds after the begin of a minute.
_SPREAD_SECONDS = 1.0
_PAUSE_AFTER_ERROR_SECONDS = 5.0
#: The same if Redis refuses: the user lacks a right, or memory is full.
_PAUSE_AFTER_REFUSAL_SECONDS = 60.0


class HistoryRecorder(BackgroundTask):
    """
    Records the history of the queues of an asyncio client while its block runs.

    Any number of processes may run one: a script on the server gives each minute to one of them. So
    another one records the next minute if a process ends. ``rsmq web`` runs one.
    """

    def __init__(self, queues: Any) -> None:
        """
        Make it; nothing is read.

        Args:
            queues: an AsyncRSMQ.
        """
        self._client = queues
        self._owner = f"{socket.gethostname()}:{os.getpid()}"

    async def record(self) -> int:
        """
        Record the minute that has just ended, if no process has, and return the number of queues.

        It records nothing later than 15 seconds after the begin of a minute.

        Raises:
            RedisError, OSError: the server can't be reached.
        """
        recorded, _ = await self._record()
        return recorded

    async def _record(self) -> tuple[int, int]:
        """Return the number of recorded queues, and the ms until the next minute."""
        client = self._client
        claim = await client.run(claim_minute(client.namespace, self._owner))
        recorded = 0
        if claim.is_granted:
            recorded = await record_queues(client, claim.minute)
        return recorded, _MINUTE_MS - claim.now_ms % _MINUTE_MS

    async def _run(self) -> None:
        has_failed = False
        while True:
            try:
                _, wait_ms = await self._record()
                seconds = wait_ms / 1000 + random.uniform(0, _SPREAD_SECONDS)  # noqa: S311
                has_failed = False
            except (RedisError, RSMQError, OSError) as error:
                if not has_failed:
                    _log.warning("the history is not recorded: %s", error)
                has_failed = True
                is_refused = isinstance(error, ResponseError)
                seconds = _PAUSE_AFTER_REFUSAL_SECONDS if is_refused else _PAUSE_AFTER_ERROR_SECONDS
            await asyncio.sleep(seconds)


async def record_queues(client: Any, minute: int) -> int:
    """
    Record what has happened before a minute in all queues of a namespace; return their number.

    Args:
        client: the asyncio client of the namespace.
        minute: Unix minutes, claimed by this process.
    """
    names = await client.run_steps(list_queues_in_steps(client.namespace))
    steps = [names[at : at + QUEUES_PER_STEP] for at in range(0, len(names), QUEUES_PER_STEP)]
    recorded = 0
    for at, step in enumerate(steps or [[]]):
        operation = record_minute(client.namespace, minute, step, is_last=at >= len(steps) - 1)
        number = await client.run(operation)
        if number < 0:  # it was so slow that another process records a later minute
            break
        recorded += number
    return recorded
