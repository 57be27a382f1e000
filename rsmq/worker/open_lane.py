"""
The lane of a listener, made from the attributes of its queue when the worker starts.
"""

from __future__ import annotations

import logging
from typing import Any

from rsmq.client import RSMQ
from rsmq.errors import InvalidFormat, QueueNotFound
from rsmq.model import QueueAttributes
from rsmq.worker.listener import Listener, check_vt
from rsmq.worker.runtime.lane import Lane

_log = logging.getLogger("rsmq.worker")

_MISSING_CHOICE = (
    "a message that always fails is retried forever. Choose dead_letter_queue=, drop=True or "
    "retry_forever=True for its listener"
)


def open_lane(listener: Listener, client: RSMQ[Any], concurrency: int, *, is_strict: bool) -> Lane:
    """
    Return the lane of a listener, and create the queues that it is to create.

    Args:
        listener: a listener.
        client: the client of the worker's home cell.
        concurrency: the worker's maximum number of concurrent calls.
        is_strict: whether a listener must choose what happens to messages that always fail;
            otherwise a missing choice is logged.

    Raises:
        QueueNotFound: a queue is missing that is not to be created.
        InvalidFormat: the choice is missing.
        InvalidValue: the queue's own vt is too short.
        Errors of redis-py: the server can't be reached.
    """
    if listener.create:
        client.create_queue(listener.queue, exist_ok=True)
    attributes = _require_queue(client, listener.queue)
    if listener.default_dead_letter_queue is not None and attributes.dead_letter_queue is None:
        listener = listener.with_default_dead_letter_queue()
    for name in listener.queues_to_create:
        client.create_queue(name, exist_ok=True)
    for name in listener.target_queues:
        _require_queue(client, name)
    lane = Lane(
        listener,
        check_vt(attributes.vt) if listener.vt is None else listener.vt,
        client.codec if listener.codec is None else listener.codec,
        min(listener.concurrency or concurrency, concurrency),
        listener.policy,
    )
    lane.apply_queue_attributes(attributes)
    if not (lane.policy.dead_letter_queue or lane.policy.drop or listener.retry_forever):
        if is_strict:
            raise InvalidFormat("listener", value=listener.queue, hint=f"{_MISSING_CHOICE}.")
        _log.warning("queue %s: %s", listener.queue, _MISSING_CHOICE)
    return lane


def _require_queue(client: RSMQ[Any], name: str) -> QueueAttributes:
    try:
        return client.get_queue_attributes(name)
    except QueueNotFound as error:
        error.hint = f"{error.hint}, or pass create=True to the listener"
        raise
