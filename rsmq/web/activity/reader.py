"""
Reads what happens in many queues, in batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from redis.exceptions import ResponseError

from rsmq.operations.operation import Operation
from rsmq.transport.retry import is_limited_to_keys
from rsmq.web.activity.operations import (
    QueueActivity,
    QueueBacklog,
    QueueRate,
    queue_activities,
    queue_rates,
    queue_states,
)
from rsmq.web.client import Client
from rsmq.web.each_queue import read_each
from rsmq.wire.keys import Namespace

#: Queues that one script reads: a state takes 3 to 15 µs of Redis's time, an activity 5, rates 3.
_STATES_STEP, _STEP, _RATES_STEP = 150, 50, 150


async def read_states(
    queues: Client, names: Iterable[str], fresh_seconds: float
) -> dict[str, QueueBacklog]:
    """
    Return what waits in those queues that exist.

    Args:
        fresh_seconds: messages that became visible so many seconds ago or later are counted.
    """
    read = partial(queue_states, fresh_seconds=fresh_seconds)
    return await read_each(queues, names, read, step=_STATES_STEP)


async def read_activities(
    queues: Client, targets: Mapping[str, str | None]
) -> dict[str, QueueActivity]:
    """
    Return what happens in queues; without those that can't be read.

    Args:
        targets: the queues, each with the dead-letter queue of its policy, or None.
    """

    def read(namespace: Namespace, qnames: Sequence[str]) -> Operation[dict[str, QueueActivity]]:
        return queue_activities(namespace, {name: targets[name] for name in qnames})

    try:
        return await read_each(queues, targets, read, step=_STEP)
    except ResponseError as error:
        if not is_limited_to_keys(error):
            raise
        return {}  # the user may not read histories


async def read_rates(queues: Client, names: Iterable[str]) -> dict[str, QueueRate]:
    """Return the rates of those queues of which they are known."""
    try:
        return await read_each(queues, names, queue_rates, step=_RATES_STEP)
    except ResponseError as error:
        if not is_limited_to_keys(error):
            raise
        return {}  # the user may not read histories
