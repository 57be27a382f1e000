# Generated from rsmq/tasks/sends/asyncio_.py by scripts/generate-sync. Do not edit.
"""
The sends of ``Tasks`` with the synchronous client.

A queue that is missing is created.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from rsmq.errors import QueueNotFound
from rsmq.operations.operation import Operation
from rsmq.tasks.body import TASK_CODEC
from rsmq.tasks.sends.groups import Group
from rsmq.tasks.signature import Signature, check_fits, large_followers
from rsmq.wire.limits import MAX_MAXSIZE

T = TypeVar("T")


def _create_missing(client: Any, queues: Iterable[str], send: Callable[[], T]) -> T:
    """Send; if a queue is missing, create all of them, and send again."""
    try:
        return send()
    except QueueNotFound:
        for name in queues:
            client.create_queue(name, exist_ok=True)
        return send()


def run(client: Any, operation: Operation[bool]) -> None:
    """Run an operation that sends to its queues."""
    _create_missing(client, operation.queues, partial(client.run, operation))


def send_call(client: Any, call: Signature[Any]) -> str:
    """Send a call, and return the id of its message."""
    check_followers(client, (call,))
    options = {"codec": TASK_CODEC, **call.send_options}
    send = partial(client.send_message, call.queue, call.body, **options)
    id: str = _create_missing(client, (call.queue,), send)
    return id


def send_groups(client: Any, calls: Iterable[Signature[Any]], groups: Iterable[Group]) -> list[str]:
    """Send calls in groups, and return the ids of their messages, in the order of the calls."""
    check_followers(client, calls)
    found: dict[int, str] = {}
    for queue, places, bodies, options in groups:
        send = partial(client.send_messages, queue, bodies, codec=TASK_CODEC, **options)
        found.update(zip(places, _create_missing(client, (queue,), send), strict=True))
    return [found[place] for place in range(len(found))]


def check_followers(client: Any, calls: Iterable[Signature[Any]]) -> None:
    """
    Check the size of what is to follow calls: all of them would run before that is known.

    Raises:
        MessageTooLong: a ``then`` is larger than the maxsize of its queue.
    """
    for queue, size in large_followers(calls):
        maxsize = MAX_MAXSIZE  # of a queue that is created
        with suppress(QueueNotFound):
            maxsize = (client.get_queue_attributes(queue)).maxsize
        check_fits(queue, size, maxsize)
