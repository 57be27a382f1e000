"""
The lane of a listener, made from the attributes of its queue when the worker starts.
"""

from __future__ import annotations

from typing import Any

from rsmq._sync.client import RSMQ
from rsmq.errors import InvalidFormat, QueueNotFound
from rsmq.worker.listener import Listener, check_vt
from rsmq.worker.needed_queues import (
    MISSING_CHOICE,
    open_needed_queues,
    retries_by_omission,
    warn_of_omission,
)
from rsmq.worker.state.lane import Lane


def open_lane(
    listener: Listener, client: RSMQ[Any], concurrency: int, *, is_strict: bool, is_burst: bool
) -> Lane:
    """
    Return the lane of a listener, and create the queues that it is to create.

    Args:
        client: the worker's client.
        concurrency: the worker's maximum number of concurrent calls.
        is_strict: whether a listener must choose what happens to messages that always fail;
            otherwise a missing choice is logged.
        is_burst: whether the worker ends when the queue is empty; then no batch waits to be full.

    Raises:
        QueueNotFound: a queue is missing that is not to be created.
        InvalidFormat: the choice is missing.
        InvalidValue: the queue's own vt is too short.
        Errors of redis-py: the server can't be reached.
    """
    try:
        listener, attributes = open_needed_queues(listener, client)
        for name in listener.target_queues:
            client.get_queue_attributes(name)
    except QueueNotFound as error:
        error.hint = f"{error.hint}, or pass create=True to the listener"
        raise
    lane = Lane(
        listener,
        client.namespace.queue(listener.queue),
        check_vt(attributes.vt) if listener.vt is None else listener.vt,
        client.codec if listener.codec is None else listener.codec,
        min(listener.concurrency or concurrency, concurrency),
        listener.policy,
        None if is_burst else listener.fill_seconds,
    )
    lane.apply_queue_attributes(attributes)
    if is_strict and retries_by_omission(lane):
        raise InvalidFormat("listener", value=listener.queue, hint=f"{MISSING_CHOICE}.")
    warn_of_omission(lane)
    return lane
