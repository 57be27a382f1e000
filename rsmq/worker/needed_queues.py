"""
The queues that a listener needs: opened when the worker starts, and when one is found missing.
"""

from __future__ import annotations

from typing import Any

from rsmq._sync.client import RSMQ
from rsmq.errors.guarded_log import get_logger
from rsmq.model import QueueAttributes
from rsmq.worker.listener import Listener
from rsmq.worker.state.lane import Lane

_log = get_logger("rsmq.worker")

MISSING_CHOICE = (
    "a message that always fails is retried forever. Choose dead_letter_queue=, drop=True or "
    "retry_forever=True for its listener"
)


def open_needed_queues(listener: Listener, client: RSMQ[Any]) -> tuple[Listener, QueueAttributes]:
    """
    Create the queues that a listener is to create, and read the attributes of its own queue.

    Args:
        client: the client of the namespace.

    Returns:
        The listener, with its default dead-letter queue if the queue has no dead-letter policy;
        and the attributes.

    Raises:
        QueueNotFound: its own queue is missing, and is not to be created.
        Errors of redis-py: the server can't be reached, or refuses to create a queue.
    """
    if listener.create:
        client.create_queue(listener.queue, exist_ok=True)
    attributes = client.get_queue_attributes(listener.queue)
    if listener.default_dead_letter_queue is not None and attributes.dead_letter_queue is None:
        listener = listener.with_default_dead_letter_queue()
    for name in listener.queues_to_create:
        client.create_queue(name, exist_ok=True)
    return listener, attributes


def retries_by_omission(lane: Lane) -> bool:
    """Return whether failing messages are retried forever, and the user has not asked for it."""
    policy = lane.policy
    return not (policy.dead_letter_queue or policy.drop or lane.listener.retry_forever)


def warn_of_omission(lane: Lane) -> None:
    """Log a warning if failing messages are retried forever without having been asked for."""
    if retries_by_omission(lane):
        _log.warning("queue %s: %s", lane.name, MISSING_CHOICE)
